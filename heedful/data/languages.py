"""How a language is written, by its code: `zh-Hant-TW` is written like `zh`. It knows codes only."""

# Languages that put no space between words; and those that put none between sentences either.
WITHOUT_SPACES = frozenset({"ja", "km", "lo", "my", "th", "yue", "zh"})
SIDE_BY_SIDE = frozenset({"ja", "yue", "zh"})

# Three-letter codes, as in FLORES and Tatoeba, of the languages that this module or `sentence_splitting.py` names.
_THREE_LETTERS = (
    "am:amh ar:ara,arb bg:bul bn:ben bs:bos ca:cat cs:ces,cze da:dan de:deu,ger el:ell,gre en:eng es:spa et:ekk,est "
    "eu:eus,baq fi:fin fo:fao fr:fra,fre gu:guj hi:hin hr:hrv hu:hun hy:hye,arm is:isl,ice it:ita ja:jpn kk:kaz km:khm "
    "kn:kan ko:kor lb:ltz lo:lao lv:lav,lvs ml:mal mr:mar my:mya,bur nb:nob nl:nld,dut nn:nno no:nor pa:pan pl:pol "
    "pt:por ru:rus sk:slk,slo sl:slv sr:srp ta:tam te:tel th:tha tr:tur uk:ukr zh:zho,chi,cmn"
)
_SHORT = {
    long: short for short, _, longs in (e.partition(":") for e in _THREE_LETTERS.split()) for long in longs.split(",")
}


def base_language(code: str) -> str:
    """`de-AT`, `de_CH`, `DE` and `deu_Latn` → `de`."""
    base = code.strip().lower().replace("_", "-").split("-")[0]
    return _SHORT.get(base, base)


def is_code(code: str) -> bool:
    """Whether it looks like a code, of two or three letters; `German` does not."""
    base = base_language(code)
    return len(base) in (2, 3) and base.isascii() and base.isalpha()


def has_spaces(code: str) -> bool:
    """Whether there are spaces between its words; assumed for an unknown language."""
    return base_language(code) not in WITHOUT_SPACES


def are_side_by_side(code: str) -> bool:
    """Whether its sentences follow each other without a space."""
    return base_language(code) in SIDE_BY_SIDE
