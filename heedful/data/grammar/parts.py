"""The nodes of a tree, from which words come. A node is the path from the root, one hexadecimal digit a step."""

# Parts of a clause; every part is one digit of a path.
SUBJECT, OBJECT, RECIPIENT, PLACE, MEANS, VERB, AUXILIARY, NEGATION, ADVERB = range(1, 10)
TIME, CONJUNCTION, CLAUSE, PREDICATE, DEGREE, THAN = range(10, 16)
# Parts of a phrase.
NOUN, DETERMINER, ADJECTIVE, SECOND_ADJECTIVE, OWNER, RELATIVE, SECOND, AND, PREPOSITION, RELATIVE_WORD = range(1, 11)

ROOT = 1


def under(node: int, part: int) -> int:
    """The node of a part of a node."""
    return node * 16 + part
