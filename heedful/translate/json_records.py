"""What programs want to know of a translation besides its text: one record a line, for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from heedful.data.words import words_of
from heedful.translate.alignment import Aligner, pharaoh
from heedful.translate.alternatives import alternatives_at, word_confidences
from heedful.translate.engine import SearchOptions
from heedful.translate.translation import Translation, Translator


@dataclass(frozen=True, slots=True)
class Details:
    """Makes the records of a translator's translations; with so many alternatives for each word of the best one."""

    translator: Translator
    aligner: Aligner | None  # None: the model cannot be aligned, and its records have no alignment
    num_alternatives: int = 0
    options: SearchOptions | None = None  # how the translations were searched for, if not as the model says

    def record(self, translation: Translation) -> dict[str, Any]:
        """The translation's own record; and of each hypothesis its alignment and how sure the model is of its words."""
        record = translation.record() | {"source_words": self._source_words(translation)}
        for rank, (hypothesis, fields) in enumerate(zip(translation.hypotheses, record["hypotheses"], strict=True)):
            if self.aligner is not None:
                fields["alignment"] = pharaoh(self.aligner.align_translation(translation, rank))
            fields["words"] = [asdict(word) for word in word_confidences(hypothesis)]
        if self.num_alternatives and translation.hypotheses:
            for position, word in enumerate(record["hypotheses"][0]["words"]):
                word["alternatives"] = self._alternatives(translation, position)
        return record

    def alignment(self, translation: Translation) -> str:
        """Of the best hypothesis, in Pharaoh format; empty for a blank line."""
        assert self.aligner is not None, "whoever asks for alignments has an aligner"
        return pharaoh(self.aligner.align_translation(translation)) if translation.hypotheses else ""

    def _source_words(self, translation: Translation) -> list[str]:
        """The words of a line that alignments count, those of its parts in a row."""
        tokenizer, language = self.translator.tokenizer, self.translator.source_language
        return [word for ids in translation.source_ids for word in words_of(tokenizer, ids, language)]

    def _alternatives(self, translation: Translation, position: int) -> list[dict[str, Any]]:
        count = self.num_alternatives
        found = alternatives_at(self.translator, translation, position, count=count, options=self.options)
        return [asdict(alternative) for alternative in found]
