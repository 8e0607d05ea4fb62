"""A language by its code: how it is written (`zh-Hant-TW` is written like `zh`), and its English name."""

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
_ENGLISH = (
    "ar Arabic, bg Bulgarian, bn Bengali, ca Catalan, cs Czech, da Danish, de German, el Greek, en English, "
    "eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, fr French, ga Irish, gl Galician, "
    "he Hebrew, hi Hindi, hr Croatian, hu Hungarian, id Indonesian, is Icelandic, it Italian, ja Japanese, "
    "ko Korean, lt Lithuanian, lv Latvian, ms Malay, nb Norwegian, nl Dutch, pl Polish, pt Portuguese, "
    "ro Romanian, ru Russian, sk Slovak, sl Slovenian, sq Albanian, sr Serbian, sv Swedish, sw Swahili, th Thai, "
    "tr Turkish, uk Ukrainian, ur Urdu, vi Vietnamese, zh Chinese"
)
_NAMES = dict(entry.split() for entry in _ENGLISH.split(", "))


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


def language_name(code: str) -> str:
    """The English name of a language, or its code if we do not know the name."""
    return _NAMES.get(code, code)
