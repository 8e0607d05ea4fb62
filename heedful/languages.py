"""What the code of a language says of its writing: `zh-Hant-TW` is written as `zh` is. It knows codes alone."""

# Languages that put no space between words.
WITHOUT_SPACES = frozenset({"ja", "km", "lo", "my", "th", "yue", "zh"})


def base_language(code: str) -> str:
    """`de-AT`, `de_CH` and `DE` → `de`."""
    return code.strip().lower().replace("_", "-").split("-")[0]


def has_spaces(code: str) -> bool:
    """Do its words stand between spaces? Of a language that is not known they are held to."""
    return base_language(code) not in WITHOUT_SPACES
