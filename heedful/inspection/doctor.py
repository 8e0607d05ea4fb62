"""`heedful doctor`: does every way to compute this model compute the same?

The same sentences go through the training graph, decoding with a cache, decoding in a batch, and each export whose
library is installed. Two things are compared with the training graph: the log-probability of every token of given
translations, and the tokens of greedy search. Greedy outputs may part where two tokens are equally likely within the
tolerance; what follows then counts for nothing. An int8 export approximates the float32 one: its mean difference may be
larger, but it only agrees if the float32 export does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeAlias

import torch

from heedful.config.optional_packages import install_line, missing
from heedful.data.grammar.corpus import LANGUAGES, held_out_examples
from heedful.data.run_folder import CONFIG, TRAINING_DATA, VALIDATION_DATA
from heedful.data.shards import Shards, open_shards
from heedful.data.special_ids import EOS_ID
from heedful.data.text_files import read_pairs
from heedful.errors import ConfigError, DataError, HeedfulError
from heedful.model.checkpoint import LoadedModel, load_config, load_model
from heedful.train.cautions import cautions
from heedful.train.validation import sentences
from heedful.translate.ctranslate2_engine import CTranslate2Engine
from heedful.translate.engine import Engine, IdPair, Request, SearchOptions
from heedful.translate.export.ctranslate2 import num_positions, write_ctranslate2
from heedful.translate.export.marian import write_huggingface
from heedful.translate.open_engine import search_engine
from heedful.translate.search import Hypothesis

SENTENCES = 16
EXACT = 1e-3  # nats a token: float32 differs by 1e-5, a mistake by more than 0.1
ROUGH = 0.1  # the mean, for int8
CPU = torch.device("cpu")


class Way(Protocol):
    """A way to compute the model."""

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """The log-probability of each token of the targets, eos included."""

    def greedy(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> list[list[int]]:
        """The likeliest token again and again, until eos (not included) or the limit."""


Export: TypeAlias = Callable[[LoadedModel, Path], Way]
"""Writes a model to a folder, and opens it there."""


@dataclass(frozen=True, slots=True)
class Finding:
    """How one way compares with the training graph."""

    name: str
    largest: float | None = None  # difference of a token's log-probability; None: it could not be computed
    mean: float | None = None
    equal: int = 0  # greedy outputs
    total: int = 0
    agrees: bool = True
    note: str = ""

    def line(self) -> str:
        """A line of the table."""
        if self.largest is None:
            return f"{self.name:22}  {self.note}"
        verdict = "agrees" if self.agrees else f"DISAGREES{self.note}"
        return f"{self.name:22}  {self.largest:9.1e}  {self.mean:9.1e}  {self.equal:>4} of {self.total:<4}  {verdict}"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings, and cautions about settings and data."""

    sentences: str  # where they come from
    findings: tuple[Finding, ...]
    cautions: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Does everything agree?"""
        return all(finding.agrees for finding in self.findings)

    def to_text(self) -> str:
        """A table for people."""
        heading = f"{'way':22}  {'largest':>9}  {'mean':>9}  {'greedy equal':>12}"
        reference = (
            f"{'training graph':22}  (what the others are compared with: log-probability of a token, and tokens)"
        )
        lines = [f"sentences: {self.sentences}", "", heading, reference, *(f.line() for f in self.findings), ""]
        return "\n".join(
            lines + ([f"warning: {text}" for text in self.cautions] or ["no mistakes in settings or data"])
        )


def examine(model: Path, *, source: Path | None = None, target: Path | None = None) -> Diagnosis:
    """Look at a model from all sides, on the CPU in float32."""
    loaded, run = load_model(model, device=CPU), _run_of(model)
    config = load_config(run / CONFIG) if run and (run / CONFIG).is_file() else loaded.config
    train, valid = (_shards(run, name) for name in (TRAINING_DATA, VALIDATION_DATA))
    name, pairs = _sentences(loaded, valid or train, source, target)
    reference = TrainingGraph(search_engine(loaded.model))
    findings = [
        compare("cached decoding", reference, CachedDecoding(search_engine(loaded.model), together=False), pairs),
        compare("batched decoding", reference, CachedDecoding(search_engine(loaded.model), together=True), pairs),
        *_exports(loaded, reference, pairs),
    ]
    found = cautions(run, config, loaded.tokenizer, train, valid)
    return Diagnosis(name, tuple(findings), tuple(found))


# ------------------------------------------------------------------------------------------------------- the sentences


def _run_of(model: Path) -> Path | None:
    """The run that a MODEL belongs to, if it is still there."""
    return next((path for path in (model, *model.resolve().parents[:2]) if (path / TRAINING_DATA).is_dir()), None)


def _shards(run: Path | None, name: str) -> Shards | None:
    return open_shards(run / name) if run is not None and (run / name).is_dir() else None


def _sentences(
    loaded: LoadedModel, shards: Shards | None, source: Path | None, target: Path | None
) -> tuple[str, list[IdPair]]:
    """Given ones, or the run's, or the built-in corpus's, or random ones."""
    languages = loaded.languages
    if source is not None and target is not None:
        given = _first_pairs(loaded, source, target)
        return f"the first {len(given)} of {source}", given
    if shards is not None:
        number = min(SENTENCES, len(shards))
        pairs = zip(sentences(shards.source, number), sentences(shards.target, number), strict=True)
        return f"{number} of the run's data", list(pairs)
    if set(languages) <= set(LANGUAGES) and languages[0] != languages[1]:
        valid, _ = held_out_examples(*languages, count=SENTENCES)
        examples = ((example.source, example.target) for example in valid)
        return f"{SENTENCES} of the built-in corpus", list(_encoded(loaded, examples))
    return f"{SENTENCES} random ones; name some with -s and -t", _random_pairs(loaded.tokenizer.vocab_size)


def _first_pairs(loaded: LoadedModel, source: Path, target: Path) -> list[IdPair]:
    """The first with words on both sides; all are read, so that files that do not end together are refused."""
    texts = ((pair.source, pair.target) for pair in read_pairs([source], [target]))
    pairs = list(islice(_encoded(loaded, texts), SENTENCES))
    for _ in texts:
        pass
    if not pairs:
        raise DataError(f"{source} and {target}: each pair is empty on a side; name text to look at")
    return pairs


def _encoded(loaded: LoadedModel, texts: Iterable[tuple[str, str]]) -> Iterator[IdPair]:
    limit, encode = loaded.config.data.max_length, loaded.tokenizer.encode
    both = ((encode(source)[:limit], encode(target)[:limit]) for source, target in texts)
    return (pair for pair in both if all(pair))


def _random_pairs(vocab_size: int) -> list[IdPair]:
    generator = torch.Generator().manual_seed(1)
    draws = torch.randint(2, vocab_size, (SENTENCES, 2, 12), generator=generator).tolist()
    return [(source[: 3 + n % 10], target[: 12 - n % 10]) for n, (source, target) in enumerate(draws)]


# ------------------------------------------------------------------------------------------------------------ the ways


@dataclass(frozen=True)
class Decoding:
    """What an engine computes: of one sentence at a time, or of all together."""

    engine: Engine
    together: bool = True

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """Score the targets with the engine's own forced pass."""
        return list(self.engine.score(pairs))

    def greedy(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> list[list[int]]:
        """Translate up to the engine's own limit, and cut the results to ours."""
        found = self.translate([Request(source) for source in sources], limits, token_scores=False)
        return [list(best.ids[:limit]) for best, limit in zip(found, limits, strict=True)]

    def translate(self, requests: Sequence[Request], limits: Sequence[int], *, token_scores: bool) -> list[Hypothesis]:
        """The best translation of each, which may be as long as its limit at least."""
        extra = max(limit - len(request.source_ids) for request, limit in zip(requests, limits, strict=True))
        options = SearchOptions(beam_size=1, max_extra=max(0, extra), token_scores=token_scores)
        batches = [requests] if self.together else [[request] for request in requests]
        return [best for batch in batches for best, *_ in self.engine.translate(batch, options)]


class CachedDecoding(Decoding):
    """What translating computes. Given targets are decoded as prefixes."""

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """Step by step, each token forced."""
        requests, lengths = [Request(*pair) for pair in pairs], [len(target) for _, target in pairs]
        found = self.translate(requests, lengths, token_scores=True)
        return [list(best.token_log_probs[:length]) for best, length in zip(found, lengths, strict=True)]


class TrainingGraph(Decoding):
    """What training computes; greedy search by doing all of it anew for each token."""

    def greedy(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> list[list[int]]:
        """Compute the whole output again for each token."""
        return [self._greedy(source, limit) for source, limit in zip(sources, limits, strict=True)]

    def _greedy(self, source: Sequence[int], limit: int) -> list[int]:
        ids: list[int] = []
        while len(ids) < limit:
            ((token, _),) = self.engine.next_tokens(Request(source, ids), 1)
            if token == EOS_ID:
                break
            ids.append(token)
        return ids


class Marian:
    """An export for Hugging Face, in `MarianMTModel`."""

    def __init__(self, folder: Path) -> None:
        from transformers import MarianMTModel
        from transformers.utils import logging

        logging.disable_progress_bar()
        self.model: Any = MarianMTModel.from_pretrained(folder).eval()
        self.pad = self.model.config.pad_token_id

    @torch.no_grad()
    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """One sentence at a time, the target shifted right."""
        return [self._score(source, target) for source, target in pairs]

    def _score(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        inputs, shifted = torch.tensor([[*source, EOS_ID]]), torch.tensor([[self.pad, *target]])
        log_probs_LV = self.model(input_ids=inputs, decoder_input_ids=shifted).logits[0].log_softmax(dim=-1)
        scores: list[float] = log_probs_LV.gather(1, torch.tensor([*target, EOS_ID])[:, None]).flatten().tolist()
        return scores

    @torch.no_grad()
    def greedy(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> list[list[int]]:
        """Call generate for one sentence at a time."""
        return [self._greedy(source, limit) for source, limit in zip(sources, limits, strict=True)]

    def _greedy(self, source: Sequence[int], limit: int) -> list[int]:
        inputs = torch.tensor([[*source, EOS_ID]])
        found = self.model.generate(
            input_ids=inputs,
            attention_mask=torch.ones_like(inputs),
            num_beams=1,
            do_sample=False,
            max_length=None,
            max_new_tokens=max(1, limit),
        )
        ids: list[int] = found[0, 1 : limit + 1].tolist()
        return ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids


def _exports(loaded: LoadedModel, reference: Way, pairs: Sequence[IdPair]) -> Iterator[Finding]:
    """Each export, or why there is none."""

    def look(name: str, package: str, export: Export, tolerance: float | None = EXACT) -> Finding:
        if missing([package]):
            return Finding(name, note=f"not looked at: {package} is not installed; {install_line(package)}")
        try:
            with TemporaryDirectory(prefix="heedful-") as folder:
                return compare(name, reference, export(loaded, Path(folder) / "export"), pairs, tolerance=tolerance)
        except ConfigError as error:
            return Finding(name, note=f"not looked at: {error}")
        except HeedfulError as error:
            return Finding(name, note=f"fails: {error}", agrees=False)

    exact = look("ctranslate2 float32", "ctranslate2", partial(_ctranslate2, quantize="float32"))
    rough = look("ctranslate2 int8", "ctranslate2", partial(_ctranslate2, quantize="int8"), tolerance=None)
    yield from (exact, _no_better(rough, exact))
    yield look("huggingface", "transformers", _huggingface)


def _no_better(rough: Finding, exact: Finding) -> Finding:
    """The finding of the int8 export, which rests on the float32 one: rounding hides a mistake, and never mends it."""
    if exact.agrees or rough.largest is None:
        return rough
    return replace(rough, agrees=False, note=", as the float32 export does")


def _ctranslate2(loaded: LoadedModel, folder: Path, *, quantize: str) -> Way:
    write_ctranslate2(loaded, folder, quantize=quantize)
    pieces, positions = loaded.tokenizer.pieces(range(loaded.tokenizer.vocab_size)), num_positions(loaded.model.config)
    return Decoding(CTranslate2Engine(folder, pieces, position_limit=positions))


def _huggingface(loaded: LoadedModel, folder: Path) -> Way:
    write_huggingface(loaded, folder)
    return Marian(folder)


# ------------------------------------------------------------------------------------------------------- the comparison


def compare(
    name: str, reference: Way, way: Way, pairs: Sequence[IdPair], *, tolerance: float | None = EXACT
) -> Finding:
    """Forced scores and greedy tokens of both. Without a tolerance the mean difference alone decides."""
    scores = zip(reference.score(pairs), way.score(pairs), strict=True)
    differences = [abs(a - b) for ours, theirs in scores for a, b in zip(ours, theirs, strict=False)]
    sources, limits = [source for source, _ in pairs], [len(source) + 10 for source, _ in pairs]
    ours, theirs = reference.greedy(sources, limits), way.greedy(sources, limits)
    equal = sum(a == b for a, b in zip(ours, theirs, strict=True))
    largest, mean = max(differences), sum(differences) / len(differences)
    if tolerance is None:
        agrees = mean <= ROUGH
    else:
        parted = [(s, a, b) for s, a, b in zip(sources, ours, theirs, strict=True) if a != b]
        agrees = largest <= tolerance and all(_is_tie(reference, *each, tolerance) for each in parted)
    return Finding(name, largest, mean, equal, len(pairs), agrees)


def _is_tie(reference: Way, source: Sequence[int], ours: list[int], theirs: list[int], tolerance: float) -> bool:
    """Are the two tokens at which the outputs part equally likely?"""
    place = next(n for n in range(len(ours) + 1) if list(ours[: n + 1]) != list(theirs[: n + 1]))
    first, second = reference.score([(source, ours), (source, theirs)])
    return abs(first[place] - second[place]) <= tolerance
