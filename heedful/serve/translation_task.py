"""One text of a request: the sentences it was divided into, and the answer that their translations are joined to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heedful.serve.language_pairs import LanguagePair
from heedful.translate.alignment import Alignment
from heedful.translate.best_combinations import best_combinations
from heedful.translate.documents.markup import Markup
from heedful.translate.documents.paragraphs import Document
from heedful.translate.translation import Translation


@dataclass(frozen=True, slots=True)
class Answer:
    """The translation of one text; `confidence` (0 to 1) only where its language was guessed."""

    text: str
    alternatives: tuple[str, ...]
    language: str
    confidence: float | None


@dataclass(frozen=True, slots=True)
class SplitText:
    """A text in its language, divided into sentences."""

    language: str
    document: Document


@dataclass(frozen=True, slots=True)
class TranslationTask:
    """One text of a request, divided; `pair` translates it, or is None if it is in the target language already."""

    text: str
    split: Document | Markup
    language: str
    confidence: float | None
    pair: LanguagePair | None

    def to_align(self, ranks: Sequence[Sequence[RankedSentence]]) -> list[RankedSentence]:
        """The translations whose alignment says where inline tags go."""
        tagged = self.split.tagged if isinstance(self.split, Markup) else ()
        return list(dict.fromkeys(rank[n] for rank in ranks for n in tagged if rank[n].translation.hypotheses))

    def answer(
        self, ranks: Sequence[Sequence[RankedSentence]], target: str, alignments: Mapping[RankedSentence, Alignment]
    ) -> Answer:
        """The answer, from the best translations of all sentences and their alignments."""
        if self.pair is None:
            return Answer(self.text, (), self.language, self.confidence)
        best, *others = dict.fromkeys(self._joined(each, target, alignments) for each in ranks)
        return Answer(best, tuple(others), self.language, self.confidence)

    def _joined(
        self, found: Sequence[RankedSentence], target: str, alignments: Mapping[RankedSentence, Alignment]
    ) -> str:
        texts = [each.text for each in found]
        if isinstance(self.split, Document):
            return self.split.join(texts, target)
        known = {n: alignments[each] for n, each in enumerate(found) if each in alignments}
        return self.split.join(texts, target, known)


@dataclass(frozen=True, slots=True)
class RankedSentence:
    """The n-th best translation of a sentence."""

    translation: Translation
    rank: int

    def __len__(self) -> int:
        return len(self.translation.source)

    @property
    def text(self) -> str:
        """The translation as the client gets it."""
        return self.translation.hypotheses[self.rank].text if self.translation.hypotheses else self.translation.text


def best_translations(found: Sequence[Translation], count: int) -> list[list[RankedSentence]]:
    """The best translations of a text, each as those of its sentences: the n-th has the n-th greatest sum of scores."""
    scores = [[hypothesis.score for hypothesis in each.hypotheses] or [0.0] for each in found]
    return [list(map(RankedSentence, found, ranks)) for ranks in best_combinations(scores, count)]
