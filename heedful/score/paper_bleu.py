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
from msgspec import Struct

from heedful.data.languages import base_language, has_spaces
from heedful.score.scores import Bleu, References, multi_bleu

COMPOUND = re.compile(r"(\S)-(\S)")
MOSES = f"sacremoses:{version('sacremoses')}"


class TokenisedBleu(Struct, frozen=True):
    """A kind of BLEU on words that are cut here, and what its signature says of the cutting."""

    name: str
    description: str
    cut: Callable[[str], str]

    def score(self, hypotheses: Sequence[str], references: References, *, num_resamples: int = 0) -> Bleu:
        """Cut all lines into words, and score them as multi-bleu.perl does."""
        return multi_bleu(
            [self.cut(line) for line in hypotheses],
            [[self.cut(line) for line in lines] for lines in references],
            name=self.name,
            description=self.description,
            num_resamples=num_resamples,
        )


def paper_bleu(language: str) -> TokenisedBleu | None:
    """The paper's BLEU: tokenised and cased; compounds are split in German. It translates into German and French."""
    return _PAPERS_BLEU.get(base_language(language))


def multi30k_bleu(language: str) -> TokenisedBleu | None:
    """BLEU of lower-cased, tokenised text, as the Multi30k papers report it.

    None for Korean, Chinese, Thai and others, whose words do not stand between spaces as Moses's tokenizer expects.
    """
    base = base_language(language)
    if base in ("", "ko") or not has_spaces(language):
        return None
    description = f"lowercased|punctuation:normalised|moses:{base}|{MOSES}"
    return TokenisedBleu("BLEU, lower-cased, tokenised", description, partial(lowercase_and_tokenise, language=base))


def split_compounds(line: str) -> str:
    """Steps 1 to 3 above. `a-b-c` becomes `a ##AT##-##AT## b-c`, as in Perl: the b is taken by the first match."""
    straight = _normaliser("de").replace_unicode_punct(line).replace("„", '"')
    return COMPOUND.sub(r"\1 ##AT##-##AT## \2", _tokenise(straight, "de"))


def lowercase_and_tokenise(line: str, *, language: str) -> str:
    """lowercase.perl | normalize-punctuation.perl -l LANGUAGE | tokenizer.perl -l LANGUAGE."""
    # The Perl scripts see the line with its end, and one rule of theirs needs a character after a final quote.
    return _tokenise(_normaliser(language).normalize(f"{line.lower()}\n"), language)


def _tokenise(line: str, language: str) -> str:
    tokenised: str = _tokenizer(language).tokenize(line, return_str=True, escape=True)
    return tokenised


_PAPERS_BLEU = {
    "de": TokenisedBleu(
        "BLEU, tokenised, compounds split (the paper's)",
        f"get_ende_bleu|quotes:ascii|moses:de|{MOSES}|compounds:##AT##",
        split_compounds,
    ),
    "fr": TokenisedBleu(
        "BLEU, tokenised (the paper's)", f"multi-bleu|moses:fr|{MOSES}", partial(_tokenise, language="fr")
    ),
}


@lru_cache
def _tokenizer(language: str) -> Any:
    return sacremoses.MosesTokenizer(language)


@lru_cache
def _normaliser(language: str) -> Any:
    return sacremoses.MosesPunctNormalizer(language, perl_parity=True)
