"""The built-in corpus: one abstract sentence, three languages.

Sentences are drawn as trees of concepts (`trees`, `sampling`) and written in English, German and Korean (`english`,
`german`, `korean`), so that any two of the languages are a parallel corpus of hundreds of thousands of distinct,
correct sentences, made without a download. Words know the node they come from, so alignments and the links of
adjectives, verbs and pronouns to their nouns come with the text. Where a language leaves something open, the grammar
fixes one translation: a source text never has two targets. Validation and test use combinations of words that training
never shows (`reserved`).

The corpus knows nothing of tokens, of models or of the paper; only `heedful.errors` and `heedful.data.atomic` are
imported.
"""
