"""What the code of a language says of its writing: `zh-Hant-TW` is written as `zh` is. It knows codes alone."""

# Languages that put no space between words; and those that put none between sentences either.
WITHOUT_SPACES = frozenset({"ja", "km", "lo", "my", "th", "yue", "zh"})
SIDE_BY_SIDE = frozenset({"ja", "yue", "zh"})

# Codes of three letters, as FLORES and Tatoeba have them, of the languages that anything here is different for.
_SHORT = {"chi": "zh", "cmn": "zh", "zho": "zh", "jpn": "ja", "kor": "ko", "tha": "th", "lao": "lo", "khm": "km"}
_SHORT |= {"bur": "my", "mya": "my", "deu": "de", "ger": "de", "fra": "fr", "fre": "fr", "eng": "en"}


def base_language(code: str) -> str:
    """`de-AT`, `de_CH`, `DE` and `deu_Latn` → `de`."""
    base = code.strip().lower().replace("_", "-").split("-")[0]
    return _SHORT.get(base, base)


def is_code(code: str) -> bool:
    """Has it the form of one, of two or three letters? `German` has not."""
    base = base_language(code)
    return len(base) in (2, 3) and base.isascii() and base.isalpha()


def has_spaces(code: str) -> bool:
    """Do its words stand between spaces? Of a language that is not known they are held to."""
    return base_language(code) not in WITHOUT_SPACES


def are_side_by_side(code: str) -> bool:
    """Do its sentences follow one another without a space?"""
    return base_language(code) in SIDE_BY_SIDE
