"""The built-in corpus: one abstract sentence, three languages.

Sentences are drawn as trees of concepts (`trees`, `sampling`) and written in English, German and Korean (`english`,
`german`, `korean`), so that any two of the languages are a parallel corpus of hundreds of thousands of distinct,
correct sentences, made without a download. Words know the node they come from, so alignments and the links of
adjectives, verbs and pronouns to their nouns come with the text. Where a language leaves something open, the grammar
fixes one translation: a source text never has two targets. Validation and test use combinations of words that training
never shows (`reserved`).

The corpus knows nothing of tokens, of models or of the paper; only `heedful.errors` and `heedful.whole` are imported.
"""

from heedful.grammar.corpus import LANGUAGES, WRITERS, BuiltInCorpus, Example, built_in_corpus
from heedful.grammar.corpus_files import write_corpus
from heedful.grammar.demo import DEMO
from heedful.grammar.links import Link
from heedful.grammar.pronouns import PronounCase
from heedful.grammar.words import text

__all__ = [
    "DEMO_SENTENCES",
    "LANGUAGES",
    "BuiltInCorpus",
    "Example",
    "Link",
    "PronounCase",
    "built_in_corpus",
    "write_corpus",
]

DEMO_SENTENCES: dict[str, tuple[str, ...]] = {
    language: tuple(text(WRITERS[language](sentence)) for sentence in DEMO) for language in LANGUAGES
}
"""Sentences for a demonstration to translate, by source language; the first two differ in what "it" stands for."""
