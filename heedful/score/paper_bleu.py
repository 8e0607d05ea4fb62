"""The older, tokenised kinds of BLEU: the one that the paper reports, and the one of the Multi30k papers.

Both are computed on words that Moses's tokenizer has cut (here by sacremoses, which gave the same tokens as
tokenizer.perl on every line of newstest2013 and newstest2014), so both depend on that cutting and stand beside
sacreBLEU, never in its place. Against the Perl scripts themselves both gave the same score, precisions and lengths on
newstest2014. This module knows strings alone: no files, no models.

**The paper's** is that of Tensor2Tensor's `get_ende_bleu.sh`, for German:

1. typographic punctuation becomes ASCII (`replace-unicode-punctuation.perl`), and „ becomes " with it: the reference
   that the script is run against has straight quotes, while the published newstest2014 has „ and “ in a tenth of its
   lines. Here both sides are treated alike;
2. `tokenizer.perl -l de`, with its XML escapes (the same on both sides, so they change no count), hyphens left alone;
3. words joined by a hyphen are split, `Nord-Süd` → `Nord ##AT##-##AT## Süd`, so that one compound counts as three;
4. `multi-bleu.perl`: cased, no smoothing.

For French the paper names no script; here steps 2 and 4 are taken, which is what is called tokenised BLEU.

**The Multi30k papers'** is that of the data set's `task1-tokenize.sh`: lower case, `normalize-punctuation.perl`,
`tokenizer.perl`, then BLEU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib.metadata import version
from typing import Any

import sacremoses

from heedful.data.languages import base_language, has_spaces
from heedful.score.scores import Bleu, References, multi_bleu

COMPOUND = re.compile(r"(\S)-(\S)")
MOSES = f"sacremoses:{version('sacremoses')}"


def has_paper_bleu(language: str) -> bool:
    """The paper translates into German and French."""
    return base_language(language) in _PAPERS_BLEU


def has_tokenised_bleu(language: str) -> bool:
    """Whether words stand between spaces, as Moses's tokenizer expects; not in Korean, Chinese, Thai and others."""
    return base_language(language) not in ("", "ko") and has_spaces(language)


def paper_bleu(hypotheses: Sequence[str], references: References, *, language: str, num_resamples: int = 0) -> Bleu:
    """The paper's BLEU: tokenised and cased; compounds are split in German."""
    name, description, cut = _PAPERS_BLEU[base_language(language)]
    return multi_bleu(
        [cut(line) for line in hypotheses],
        [[cut(line) for line in lines] for lines in references],
        name=name,
        description=description,
        num_resamples=num_resamples,
    )


def lowercased_tokenised_bleu(
    hypotheses: Sequence[str], references: References, *, language: str, num_resamples: int = 0
) -> Bleu:
    """BLEU of lower-cased, tokenised text, as the Multi30k papers report it."""
    base = base_language(language)
    tokenise = partial(lowercase_and_tokenise, language=base)
    return multi_bleu(
        [tokenise(line) for line in hypotheses],
        [[tokenise(line) for line in lines] for lines in references],
        name="BLEU, lower-cased, tokenised",
        description=f"lowercased|punctuation:normalised|moses:{base}|{MOSES}",
        num_resamples=num_resamples,
    )


def split_compounds(line: str) -> str:
    """Steps 1 to 3 above. `a-b-c` becomes `a ##AT##-##AT## b-c`, as in Perl: the b is taken by the first match."""
    straight = _normaliser("de").replace_unicode_punct(line).replace("„", '"')
    return COMPOUND.sub(r"\1 ##AT##-##AT## \2", _tokenise(straight, "de"))


def lowercase_and_tokenise(line: str, *, language: str) -> str:
    """lowercase.perl | normalize-punctuation.perl -l LANGUAGE | tokenizer.perl -l LANGUAGE."""
    # The Perl scripts see the line with its end, and one rule of theirs needs a character behind a final quote.
    return _tokenise(_normaliser(language).normalize(f"{line.lower()}\n"), language)


def _tokenise(line: str, language: str) -> str:
    tokenised: str = _tokenizer(language).tokenize(line, return_str=True, escape=True)
    return tokenised


_PAPERS_BLEU: dict[str, tuple[str, str, Callable[[str], str]]] = {
    "de": (
        "BLEU, tokenised, compounds split (the paper's)",
        f"get_ende_bleu|quotes:ascii|moses:de|{MOSES}|compounds:##AT##",
        split_compounds,
    ),
    "fr": ("BLEU, tokenised (the paper's)", f"multi-bleu|moses:fr|{MOSES}", partial(_tokenise, language="fr")),
}


@lru_cache
def _tokenizer(language: str) -> Any:
    return sacremoses.MosesTokenizer(language)


@lru_cache
def _normaliser(language: str) -> Any:
    return sacremoses.MosesPunctNormalizer(language, perl_parity=True)
