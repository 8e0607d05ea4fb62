"""What the code of a language says of its writing: `zh-Hant-TW` is written as `zh` is. It knows codes alone."""

# Languages that put no space between words; and those that put none between sentences either.
WITHOUT_SPACES = frozenset({"ja", "km", "lo", "my", "th", "yue", "zh"})
SIDE_BY_SIDE = frozenset({"ja", "yue", "zh"})

# Codes of three letters, as FLORES and Tatoeba have them, of the languages that anything here or in `splitting.py` is
# different for.
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
    """Has it the form of one, of two or three letters? `German` has not."""
    base = base_language(code)
    return len(base) in (2, 3) and base.isascii() and base.isalpha()


def has_spaces(code: str) -> bool:
    """Do its words stand between spaces? Of a language that is not known they are held to."""
    return base_language(code) not in WITHOUT_SPACES


def are_side_by_side(code: str) -> bool:
    """Do its sentences follow one another without a space?"""
    return base_language(code) in SIDE_BY_SIDE
