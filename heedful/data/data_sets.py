"""The public data sets that `heedful fetch` knows: where their files are, how to check them, what text is in them.

Only published digests are listed: those of the WMT training archives come from TensorFlow Datasets, those of the test
sets from sacreBLEU. Without a digest the first download is trusted and remembered (`fetch.py`). `same_as` is the
SHA-256 of the text that our own figures were made with: a text that differs is reported, and kept. This module knows
no network and no files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias

from msgspec import Struct

from heedful.errors import ConfigError

TextFormat: TypeAlias = Literal["plain", "sgm", "ted"]


class Download(Struct, frozen=True, kw_only=True):
    """A file to fetch; it keeps its name."""

    url: str
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None

    @property
    def name(self) -> str:
        """Its name on disk, and below a mirror."""
        return self.url.rpartition("/")[2]


class TextPlace(Struct, frozen=True):
    """Where text is: in a member of an archive or, without a member, in the file itself; and in which format."""

    download: str
    member: str = ""
    format: TextFormat = "plain"


class Text(Struct, frozen=True, kw_only=True):
    """One language of a split, from one or several places."""

    places: tuple[TextPlace, ...]
    same_as: str | None = None


class Split(Struct, frozen=True, kw_only=True):
    """Aligned texts, one for each language; `held_out` gives every n-th pair to another split."""

    texts: dict[str, Text]
    lines: int | None = None  # where it is known
    held_out: tuple[str, int] | None = None


class DataSet(Struct, frozen=True, kw_only=True):
    """What one `heedful fetch` downloads and writes."""

    name: str
    about: str
    downloads: tuple[Download, ...]
    splits: dict[str, Split]


def data_set(name: str) -> DataSet:
    """The data set of that name."""
    if name not in CATALOGUE:
        raise ConfigError(f"data set {name!r} is unknown; choose one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def _texts(
    languages: Sequence[str],
    *places: tuple[str, str],
    format: TextFormat = "plain",
    same_as: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Text]:
    """The texts in places (download, member) that differ only in the language, which stands for {}."""
    return {
        language: Text(
            places=tuple(TextPlace(file.format(language), member.format(language), format) for file, member in places),
            same_as=same_as.get(language),
        )
        for language in languages
    }


# ------------------------------------------------------------------------------------------------------------- Multi30k

_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
_MULTI30K_LANGUAGES = ("en", "de", "fr")
_MULTI30K_FILES = [(part, language) for part in ("train", "val") for language in _MULTI30K_LANGUAGES]
_MULTI30K_TESTS = "multi30k_test_sets_d3ec2a38.tar.gz"
_MULTI30K_SAME = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "valid.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "valid.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "valid.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "test_2017_flickr.en": "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
    "test_2017_flickr.de": "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
    "test_2017_flickr.fr": "6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6",
}


def _multi30k_split(split: str, lines: int, download: str, member: str = "") -> Split:
    same_as = {language: _MULTI30K_SAME[f"{split}.{language}"] for language in _MULTI30K_LANGUAGES}
    return Split(texts=_texts(_MULTI30K_LANGUAGES, (download, member), same_as=same_as), lines=lines)


MULTI30K = DataSet(
    name="multi30k",
    about="picture captions in English, German and French (task 1, raw); for non-commercial research and education",
    downloads=(
        *(Download(url=f"{_MULTI30K}/raw/{part}.{language}.gz") for part, language in _MULTI30K_FILES),
        Download(url=f"{_MULTI30K}/{_MULTI30K_TESTS}", md5="9cf8f22d57fee2ca2af3c682dfdc525b"),
    ),
    splits={
        "train": _multi30k_split("train", 29_000, "train.{}.gz"),
        "valid": _multi30k_split("valid", 1_014, "val.{}.gz"),
        "test_2016_flickr": _multi30k_split("test_2016_flickr", 1_000, _MULTI30K_TESTS, "test_2016_flickr.{}"),
        "test_2017_flickr": _multi30k_split("test_2017_flickr", 1_000, _MULTI30K_TESTS, "test_2017_flickr.{}"),
    },
)

# -------------------------------------------------------------------------------------------------------------- IWSLT14

_TED_TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")

# The split is fairseq's: every 23rd training pair validates, and five development and test sets together are the test.
# Its tokenisation, lower case and cleaning are not done here, so that its 160,239 and 7,283 pairs are fewer than ours.
IWSLT14 = DataSet(
    name="iwslt14",
    about="TED talks, German and English; CC BY-NC-ND 4.0",
    downloads=(Download(url="https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"),),
    splits={
        "train": Split(
            texts=_texts(("de", "en"), ("de-en.tgz", "de-en/train.tags.de-en.{}"), format="ted"),
            held_out=("valid", 23),
        ),
        "test": Split(
            texts=_texts(
                ("de", "en"),
                *(("de-en.tgz", f"de-en/IWSLT14.{test}.de-en.{{}}.xml") for test in _TED_TESTS),
                format="sgm",
            ),
            lines=6_750,
        ),
    },
)

# ---------------------------------------------------------------------------------------------------------------- WMT14

_STATMT = "https://www.statmt.org"
_EUROPARL = Download(
    url=f"{_STATMT}/wmt13/training-parallel-europarl-v7.tgz",
    size=657_632_379,
    sha256="0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
_COMMON_CRAWL = Download(
    url=f"{_STATMT}/wmt13/training-parallel-commoncrawl.tgz",
    size=918_311_367,
    sha256="c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
_NEWS_COMMENTARY = Download(
    url=f"{_STATMT}/wmt14/training-parallel-nc-v9.tgz",
    size=80_418_416,
    sha256="cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
)
_UN = Download(url=f"{_STATMT}/wmt13/training-parallel-un.tgz")
_GIGA = Download(url=f"{_STATMT}/wmt10/training-giga-fren.tar", size=2_595_102_720)
_NEWSTEST2013 = Download(url=f"{_STATMT}/wmt13/test.tgz", md5="48eca5d02f637af44e85186847141f67")
_NEWSTEST2014 = Download(url=f"{_STATMT}/wmt14/test-full.tgz", md5="a8cd784e006feb32ac6f3d9ec7eb389a")
_NAMES = {"de": "German", "fr": "French"}


def _wmt14(name: str, other: str, downloads: tuple[Download, ...], train: tuple[tuple[Download, str], ...]) -> DataSet:
    """English and another language: what WMT 2014 allowed for training, newstest2013 and the full newstest2014."""
    pair = ("en", other)
    newstest2014 = {"en": f"newstest2014-{other}en-src.en.sgm", other: f"newstest2014-{other}en-ref.{other}.sgm"}
    return DataSet(
        name=name,
        about=f"WMT 2014, English and {_NAMES[other]}: the paper's data (§5.1); for research",
        downloads=(*downloads, _NEWSTEST2013, _NEWSTEST2014),
        splits={
            "train": Split(texts=_texts(pair, *((each.name, member.format(f"{other}-en")) for each, member in train))),
            "newstest2013": Split(
                texts=_texts(pair, ("test.tgz", "test/newstest2013-src.{}.sgm"), format="sgm"), lines=3_000
            ),
            "newstest2014": Split(
                texts={
                    language: Text(places=(TextPlace("test-full.tgz", f"test-full/{member}", "sgm"),))
                    for language, member in newstest2014.items()
                },
                lines=3_003,
            ),
        },
    )


_THREE = (
    (_EUROPARL, "training/europarl-v7.{}.{{}}"),
    (_COMMON_CRAWL, "commoncrawl.{}.{{}}"),
    (_NEWS_COMMENTARY, "training/news-commentary-v9.{}.{{}}"),
)
_FRENCH = (*_THREE, (_UN, "un/undoc.2000.{}.{{}}"), (_GIGA, "giga-fren.release2.fixed.{{}}.gz"))

WMT14 = _wmt14("wmt14", "de", tuple(d for d, _ in _THREE), _THREE)
WMT14_EN_FR = _wmt14("wmt14-en-fr", "fr", tuple(d for d, _ in _FRENCH), _FRENCH)

CATALOGUE = {each.name: each for each in (MULTI30K, IWSLT14, WMT14, WMT14_EN_FR)}
