"""The tables of docs/results.md and the short ones of both READMEs, from the cards in results/ and from peers.toml.

    python -m benchmarks.tables           # write them (make tables)
    python -m benchmarks.tables --check   # say whether they are up to date

Cards that differ in the seed alone make one row. Nothing in these tables is typed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.command import parser, run
from heedful.score.card import Card, Evaluation, Training, load_card
from heedful.score.card_comparison import Row, cell, rows_by_recipe, scored_alike
from heedful.score.card_tables import codes, machines, precisions, r_drop_remark
from heedful.score.report import Report
from heedful.score.tables import markdown_table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
BEGIN, END = "<!-- results: written by make tables -->", "<!-- end of results -->"
DOCUMENT = "docs/results.md"


def _papers(report: Report, language: str) -> float | None:
    """The paper's BLEU, which is another for each language."""
    return report.paper_bleu.value if report.paper_bleu and report.language == language else None


METRICS: dict[str, Callable[[Report], float | None]] = {
    "sacreBLEU": lambda report: report.bleu.value,
    "BLEU, tokenised, compounds split": lambda report: _papers(report, "de"),
    "BLEU, lower-cased, tokenised": lambda report: (
        report.lowercased_tokenised.value if report.lowercased_tokenised else None
    ),
    "BLEU, tokenised": lambda report: _papers(report, "fr"),
    "chrF2": lambda report: report.chrf.value,
    "TER": lambda report: report.ter.value,
    "perplexity per word piece": lambda report: report.perplexity.per_piece if report.perplexity else None,
    "pronoun accuracy, %": lambda report: (
        None if report.contrastive_accuracy is None else 100 * report.contrastive_accuracy
    ),
}
IN_SUMMARY = ("sacreBLEU", "pronoun accuracy, %")  # and what a peer has


class Words(Struct, frozen=True, kw_only=True):
    """What the README's table says, in the README's language."""

    heading: tuple[str, str, str]
    not_run: str
    phrases: tuple[tuple[str, str], ...] = ()  # patterns of English in a cell, and what stands in their place


READMES = {
    "README.md": Words(heading=("recipe", "sacreBLEU", "trained in"), not_run="not run by us"),
    "README.ko.md": Words(
        heading=("레시피", "sacreBLEU", "학습 시간"),
        not_run="아직 돌려 보지 않음",
        phrases=(
            (r"\bbeam (\d+)", r"빔 \1"),
            (r"(\d+) cores", r"코어 \1개"),
            (r"(?<=\d) s\b", "초"),
        ),
    ),
}


class Peer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A figure of others."""

    data: str
    recipe: str  # empty: none of ours answers it
    pair: str
    test: str
    sha256: str = ""  # of source and references, as cards have it; empty: not known, the name decides
    metric: str
    value: float
    system: str
    search: str
    source: str

    @property
    def whose(self) -> str:
        """Whose figure it is, and how it was searched."""
        return f"{self.system}; {self.search}"


class _Peers(Struct, frozen=True, forbid_unknown_fields=True):
    peer: list[Peer]


def read_peers(folder: Path) -> list[Peer]:
    """The figures in peers.toml; every metric is one of ours."""
    peers = msgspec.toml.decode((folder / "peers.toml").read_bytes(), type=_Peers).peer
    for peer in peers:
        assert peer.metric in METRICS, f"peers.toml: {peer.metric!r} is none of {', '.join(METRICS)}"
    return peers


def read_rows(folder: Path) -> list[Row]:
    """The cards, by recipe, in the order of their files' names."""
    return rows_by_recipe([load_card(path) for path in sorted(folder.glob("*.json"))])


# --------------------------------------------------------------------------------------------- the tables of recipes


def card_files(folder: Path) -> dict[str, str]:
    """The files of the cards, by the digest of the weights."""
    return {load_card(path).weights_sha256: path.name for path in sorted(folder.glob("*.json"))}


def readme_table(rows: Sequence[Row], peers: Sequence[Peer], words: Words, files: Mapping[str, str]) -> str:
    """One line for each recipe, then one for all that we have not run."""
    lines = [[_linked(row, f"{RESULTS.name}/", files), _scores(row), _trained(row)] for row in rows]
    ours = {row.name for row in rows}
    missing = dict.fromkeys(f"`{peer.recipe}`" for peer in peers if peer.recipe and peer.recipe not in ours)
    lines += [[", ".join(missing), words.not_run, ""]] if missing else []
    said = [[_said(text, words) for text in line] for line in lines]
    return "\n".join(markdown_table([[*words.heading], *said]))


def _scores(row: Row) -> str:
    """sacreBLEU on each test set, with the tokenizer unless it is the usual one."""
    return "; ".join(_score(row, evaluations) for evaluations in _by_test(row))


def _score(row: Row, evaluations: Sequence[Evaluation]) -> str:
    first = evaluations[0]
    remarks = [remark for remark in (_tokenizer(first), _search(row, first)) if remark]
    about = f" ({'; '.join(remarks)})" if remarks else ""
    return f"{first.name}{about} **{figure('sacreBLEU', evaluations)}**"


def summary_table(rows: Sequence[Row], peers: Sequence[Peer], files: Mapping[str, str]) -> str:
    """One line for each recipe and test set, and for what others have and we have not run."""
    table = [["recipe", "test set", "heedful", "others", "trained in"]]
    answered: set[Peer] = set()
    for row in rows:
        for evaluations in _by_test(row):
            beside = _beside(row.cards[0], evaluations[0], peers)
            answered |= set(beside)
            table.append([_linked(row, f"../{RESULTS.name}/", files), *_figures_line(row, evaluations, beside)])
    for peer in peers:
        if peer.recipe and peer not in answered and peer.recipe not in {row.name for row in rows}:
            table.append([f"`{peer.recipe}`", f"{peer.test}, {peer.pair}", "not run by us", _theirs(peer), ""])
    return "\n".join(markdown_table(table))


def _linked(row: Row, folder: str, files: Mapping[str, str]) -> str:
    """The recipe, with a link to the card of each seed."""
    cards = [f"[{card.config['train']['seed']}]({folder}{files[card.weights_sha256]})" for card in row.cards]
    return f"`{row.name}` {' '.join(cards)}"


def _said(text: str, words: Words) -> str:
    """A cell in the README's language."""
    for pattern, ours in words.phrases:
        text = re.sub(pattern, ours, text)
    return text


def _figures_line(row: Row, evaluations: Sequence[Evaluation], peers: Sequence[Peer]) -> list[str]:
    names = [name for name in METRICS if name in IN_SUMMARY or name in {peer.metric for peer in peers}]
    figures = [f"{_metric(name, evaluations)} **{value}**" for name in names if (value := figure(name, evaluations))]
    card, search = row.cards[0], _search(row, evaluations[0])
    remarks = [f"{len(evaluations)} seeds"] if len(evaluations) > 1 else []
    remarks += [_searched(card, evaluations[0])] if peers else []
    return [
        f"{evaluations[0].name}, {card.source_language}-{card.target_language}" + (f"; {search}" if search else ""),
        "; ".join(figures) + (f" ({'; '.join(remarks)})" if remarks else ""),
        "; ".join(map(_theirs, peers)),
        _trained(row),
    ]


def _search(row: Row, evaluation: Evaluation) -> str:
    """How it was searched, where a test set was searched in several ways."""
    names = [evaluations[0].name for evaluations in _by_test(row)]
    return evaluation.search if names.count(evaluation.name) > 1 else ""


def _searched(card: Card, evaluation: Evaluation) -> str:
    """How ours was searched, in the words of peers.toml: for a figure that has others beside it."""
    search = "greedy" if evaluation.beam_size == 1 else f"beam {evaluation.beam_size}"
    averaged = len(card.training.averaged_steps) if card.training else 1
    return f"{search}, {averaged} checkpoints averaged" if averaged > 1 else search


def figure(name: str, evaluations: Sequence[Evaluation]) -> str:
    """A score, or the mean and standard deviation over seeds; empty where a card has none."""
    found = cell([METRICS[name](evaluation.report) for evaluation in evaluations])
    return found.show(1 if "%" in name else 2) if found else ""


def _metric(name: str, evaluations: Sequence[Evaluation]) -> str:
    """sacreBLEU's name says which tokenizer it used, unless that is the usual one."""
    tokenizer = _tokenizer(evaluations[0])
    return f"{name} ({tokenizer})" if name == "sacreBLEU" and tokenizer else name


def _tokenizer(evaluation: Evaluation) -> str:
    """Empty if it is the usual one."""
    name = evaluation.report.tokenizer.name
    return "" if name == "13a" else name


def _theirs(peer: Peer) -> str:
    return f"{peer.metric} {peer.value} ({peer.whose})"


def _beside(card: Card, evaluation: Evaluation, peers: Sequence[Peer]) -> list[Peer]:
    key = f"{card.source_language}-{card.target_language}", evaluation.name
    alike = [peer for peer in peers if card.name.startswith(peer.data) and (peer.pair, peer.test) == key]
    return [peer for peer in alike if peer.sha256 in ("", evaluation.sha256)]


def _by_test(row: Row) -> list[list[Evaluation]]:
    """The evaluations of a row, those on one test set, scored and searched alike, together."""
    return [[each.evaluation for each in scored] for scored in scored_alike(row).values()]


def _trained(row: Row) -> str:
    trainings = _trainings(row)
    if not trainings:
        return ""
    seconds = cell([training.seconds for training in trainings])
    where = dict.fromkeys(t.machine.gpu or f"{t.machine.processor}, {t.machine.cores} cores" for t in trainings)
    return f"{seconds.show(1) if seconds else ''} s; {'; '.join(where)}"


def _trainings(row: Row) -> list[Training]:
    return [card.training for card in row.cards if card.training]


# ----------------------------------------------------------------------------------------------- docs/results.md


def document(rows: Sequence[Row], peers: Sequence[Peer], files: Mapping[str, str]) -> str:
    """What docs/results.md says of the cards: a summary, a chapter for each recipe, the figures of others."""
    chapters = [_chapter(row, peers) for row in rows] or ["There is no card yet."]
    return "\n\n".join([summary_table(rows, peers, files), *chapters, _peer_chapter(peers)])


def _chapter(row: Row, peers: Sequence[Peer]) -> str:
    card = row.cards[0]
    title = f"## {row.name}: {card.source_language} → {card.target_language}"
    tests = [_test_section(card, evaluations, peers) for evaluations in _by_test(row)]
    return "\n\n".join([title, "\n".join(markdown_table(_facts(row))), *tests])


def _facts(row: Row) -> list[list[str]]:
    card, trainings = row.cards[0], _trainings(row)
    facts = [["", ""], ["model", f"{card.parameters:,} parameters, {card.vocab_size:,} word pieces"]]
    if not trainings:
        return [*facts, ["training", "not known"]]
    first = trainings[0]
    seconds, speed = cell([t.seconds for t in trainings]), cell([t.tokens_per_second for t in trainings])
    hours = cell([t.gpu_hours for t in trainings])
    assert seconds
    assert speed
    facts += [
        ["seeds", ", ".join(str(t.seed) for t in trainings)],
        ["steps", f"{first.steps:,}; average of {len(first.averaged_steps)}; {precisions(*trainings)}"],
        [
            "target tokens",
            f"{first.target_tokens:,}{r_drop_remark(card.config)}; {speed.mean:,.0f} a second, validation included",
        ],
        ["time", f"{seconds.show(1)} s" + (f"; {hours.show(4)} GPU-hours" if hours else "")],
        ["machine", machines(*trainings)],
        ["code", codes(*trainings)],
    ]
    if {"kept", "read"} <= first.training.counts.keys():
        facts += [["pairs", f"{first.training.counts['kept']:,} of {first.training.counts['read']:,}"]]
    files = (*first.training.source, *first.training.target)
    return [*facts, *([f"`{file.name}`, SHA-256 of the text", file.sha256 or "not known"] for file in files)]


def _test_section(card: Card, evaluations: Sequence[Evaluation], peers: Sequence[Peer]) -> str:
    first = evaluations[0]
    table = [["metric", "heedful", "others"]]
    for name in METRICS:
        theirs = [peer for peer in _beside(card, first, peers) if peer.metric == name]
        value = figure(name, evaluations)
        if value or theirs:
            beside = "; ".join(f"{peer.value} ({peer.whose})" for peer in theirs)
            table.append([_metric(name, evaluations), value + _interval(name, evaluations), beside])
    lines = [
        f"### {first.name}",
        "",
        *markdown_table(table),
        "",
        f"{first.report.num_lines:,} lines of `{first.source.name}`, SHA-256 of source and references {first.sha256}; "
        f"{first.search}; sacreBLEU {first.report.bleu.signature}.",
    ]
    return "\n".join(lines)


def _interval(name: str, evaluations: Sequence[Evaluation]) -> str:
    """The 95 % interval of a single card's score."""
    report = evaluations[0].report
    scores = {"sacreBLEU": report.bleu, "chrF2": report.chrf, "TER": report.ter}
    interval = scores[name].interval if name in scores and len(evaluations) == 1 else None
    return f" ({interval.mean:.2f} ± {interval.margin:.2f})" if interval else ""


def _peer_chapter(peers: Sequence[Peer]) -> str:
    table = [["data", "test set", "metric", "figure", "whose", "searched", "where from"]]
    table += [[p.data, f"{p.test}, {p.pair}", p.metric, str(p.value), p.system, p.search, p.source] for p in peers]
    return "\n".join(["## Figures of others", "", *markdown_table(table)])


# ----------------------------------------------------------------------------------------------------------- the files


def between_markers(text: str, table: str, name: str) -> str:
    """The text with what is written here between its two markers."""
    new, count = re.subn(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n{table}\n{END}", text, flags=re.DOTALL
    )
    assert count == 1, f"{name} needs {BEGIN} and {END} once"
    return new


def generated(root: Path = ROOT, results: Path = RESULTS) -> dict[Path, str]:
    """Every file that is written from the cards, and what it should say."""
    rows, peers, cards = read_rows(results), read_peers(results), card_files(results)
    tables = {DOCUMENT: document(rows, peers, cards)}
    tables |= {name: readme_table(rows, peers, words, cards) for name, words in READMES.items()}
    return {
        root / name: between_markers((root / name).read_text(encoding="utf-8"), table, name)
        for name, table in tables.items()
    }


def stale(root: Path = ROOT, results: Path = RESULTS) -> list[Path]:
    """The files that do not say what the cards say."""
    return [p for p, text in generated(root, results).items() if not p.exists() or p.read_text("utf-8") != text]


def main() -> None:
    """Write the tables, or check them."""
    asked = parser(__doc__)
    asked.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a table is out of date")
    given, old = asked.parse_args(), stale()
    if given.check:
        sys.exit("".join(f"{path.relative_to(ROOT)} is out of date: make tables\n" for path in old) or 0)
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
    print("\n".join(str(path.relative_to(ROOT)) for path in old) or "all tables are up to date")


if __name__ == "__main__":
    run(main)
