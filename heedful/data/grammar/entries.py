"""The kinds of rows in the lexicon's tables: what is written down about a noun, an adjective, a verb, …

These are types only. They know no word, no rule of inflection and no sentence. What goes with what (selectional
restrictions) is written as a string of noun names (singular) and tags (plural), which `lexicon.select` resolves.

Korean verbs and adjectives are given by their stem, the form before -서 and -ㅆ다, and where it is irregular the stem
before -ㄴ and -ㄹ: "듣/들어/들으".
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A being or a thing. Its first tag is its class; `oblique` is the accusative and dative of weak nouns."""

    name: str
    english: str
    english_plural: str
    gender: str
    german: str
    german_plural: str
    korean: str
    counter: str
    tags: tuple[str, ...]
    english_pronoun: str = "it"
    genitive: str = ""
    oblique: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """A property. Where `korean` is empty there is only the form before a noun (`modifier`), and no predicate.

    `kind` is "colour", "age", "look" or "state"; `degrees` says whether one can be "very" and "too" much so.
    """

    name: str
    english: str
    german: str
    korean: str
    fits: str
    modifier: str = ""
    german_stem: str = ""
    comparatives: str = ""
    kind: str = "state"
    degrees: str = "very too"


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """An action: English base, past, participle; German infinitive, present, preterite, participle (of er, sie, es).

    `case`, `preposition` and `particle` are of the object (or, without objects, the particle is of the place);
    `cannot` verbs are negated with -지 못하다, as what fails rather than what is left undone.
    """

    name: str
    english: str
    german: str
    korean: str
    subjects: str
    objects: str = ""
    english_particle: str = ""
    auxiliary: str = "haben"
    prefix: str = ""
    case: str = "acc"
    preposition: str = ""
    particle: str = "를"
    korean_negated: str = ""
    cannot: bool = False
    habitual: bool = True
    places: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """A time that opens its sentence."""

    english: str
    german: str
    korean: str


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """A relation to a place: `relation` is the Korean noun for it (위), `particle` follows, or the verb's if empty."""

    english: str
    german: str
    case: str
    relation: str
    particle: str


@dataclass(frozen=True, slots=True, eq=False)
class Dilemma:
    """An action, what speaks for it and what against it, in its subject and in its object ("wide: road river").

    No adjective is on both sides, so that the antecedent of the pronoun follows from the adjective alone.
    """

    verb: str
    subjects: str
    objects: str
    subject_for: str
    object_for: str
    subject_against: str
    object_against: str
