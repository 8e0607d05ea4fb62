"""Cards as tables: one card in full, or several side by side on the test sets that they share. As text or Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from heedful.card import Card, Corpus, Evaluation, TextFile, Training
from heedful.config import Layer, layer_to_toml
from heedful.counting import counted
from heedful.evaluation import Report, plain_table
from heedful.significance import BLEU, CHRF, Comparison, paired_bootstrap, unpack
from heedful.starts import Share

Rows: TypeAlias = list[list[str]]  # the first is the heading
Form: TypeAlias = Literal["text", "md"]


class Section(Struct, frozen=True):
    """A heading with a table under it, or with lines that stand as they are."""

    title: str
    rows: Rows = []
    lines: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------------------ one card


def to_markdown(card: Card) -> str:
    """A card as people read it in a repository."""
    return "\n\n".join([f"# {_title(card)}", *(_markdown(section) for section in _sections(card))]) + "\n"


def to_text(card: Card) -> str:
    """A card as people read it on a terminal."""
    return "\n\n".join([_title(card), *(_text(section) for section in _sections(card))])


def _title(card: Card) -> str:
    return f"{card.name}: {card.source_language or '?'} → {card.target_language or '?'}"


def _sections(card: Card) -> list[Section]:
    training = card.training
    facts = [["", ""], ["model", f"{card.parameters:,} parameters, {card.vocab_size:,} word pieces"]]
    facts += _training_facts(training, card.config) if training else [["training", "not known"]]
    facts += [["weights, SHA-256", card.weights_sha256]]
    starts = [Section("Starts", rows)] if training and len(rows := _start_rows(training)) > 2 else []
    files = [Section("Data", _data_rows(training))] if training else []
    scores = [_scores(evaluation) for evaluation in card.evaluations]
    toml = layer_to_toml(card.config).rstrip()
    return [Section("Model", facts), *starts, *files, *scores, Section("Configuration", lines=tuple(toml.splitlines()))]


def _training_facts(training: Training, config: Layer) -> Rows:
    hours = "" if training.gpu_hours is None else f", {training.gpu_hours:.3f} GPU-hours"
    several = "s" if len(training.averaged_steps) > 1 else ""
    steps = ", ".join(map(str, training.averaged_steps))
    decay = config.get("train", {}).get("ema_decay")
    averaged = f"{len(training.averaged_steps)} checkpoint{several} (step{several} {steps})"
    return [
        ["average of", f"all steps, train.ema_decay = {decay}" if decay else averaged],
        ["seed", str(training.seed)],
        [
            "trained",
            f"{counted(training.steps, 'step')}, {training.target_tokens:,} target tokens, {precisions(training)}",
        ],
        [
            "time",
            f"{training.seconds:,.1f} s, validation included: {training.tokens_per_second:,.0f} target tokens/s{hours}",
        ],
        ["machine", machines(training)],
        ["code", codes(training)],
        ["date", training.date],
    ]


def code(made: Training | Evaluation | Share) -> str:
    """Version and commit."""
    return f"heedful {made.version}" + (f", commit {made.commit}" if made.commit else "")


def codes(training: Training) -> str:
    """Version and commit of all starts."""
    return _all(training, code)


def machines(training: Training) -> str:
    """The machines of all starts."""
    return _all(training, lambda made: made.machine.describe())


def precisions(training: Training) -> str:
    """The numbers that were computed in, of all starts."""
    return _all(training, lambda made: made.precision)


def _all(training: Training, say: Callable[[Training | Share], str]) -> str:
    """What differs between starts, in their order; a card without starts speaks of one."""
    return "; ".join(dict.fromkeys(map(say, training.shares or (training,))))


def _start_rows(training: Training) -> Rows:
    rows = [["date", "steps", "target tokens", "s", "precision", "machine", "code"]]
    for share in training.shares:
        figures = [f"{share.steps:,}", f"{share.target_tokens:,}", f"{share.seconds:,.1f}"]
        rows.append([share.date, *figures, share.precision, share.machine.describe(), code(share)])
    unknown = training.steps - sum(share.steps for share in training.shares) if training.shares else 0
    return [*rows, *([["not known", f"{unknown:,}", "", "", "", "", ""]] if unknown else [])]


def _data_rows(training: Training) -> Rows:
    rows = [["part", "file", "lines", "SHA-256 of the text"]]
    for part, corpus in {"training": training.training, "validation": training.validation}.items():
        if corpus:
            rows += [[part, *_file_cells(file)] for file in (*corpus.source, *corpus.target)]
            rows += [[part, "pairs kept", _kept(corpus), _left_out(corpus)]]
    return rows


def _file_cells(file: TextFile) -> list[str]:
    lines = "" if file.lines is None else f"{file.lines:,}"
    return [file.name, lines, file.sha256 or "not known: the file was no longer there, or changed"]


def _kept(corpus: Corpus) -> str:
    return f"{corpus.counts['kept']:,}" if "kept" in corpus.counts else "not known"


def _left_out(corpus: Corpus) -> str:
    """What became of the others, and how much text there is."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in corpus.counts.items() if name != "kept")


def _scores(evaluation: Evaluation) -> Section:
    report = evaluation.report
    rows = [["metric", "score", "95 % interval", "signature"]]
    for score in report.scores:
        interval = f"{score.interval.mean:.2f} ± {score.interval.margin:.2f}" if score.interval else ""
        lower = " (lower is better)" if score is report.ter else ""
        rows.append([score.name + lower, f"{score.value:.2f}", interval, score.signature])
    if report.perplexity:
        rows.append(["perplexity per word piece", f"{report.perplexity.per_piece:.3f}", "", ""])
        if report.perplexity.per_word is not None:
            rows.append(["perplexity per word", f"{report.perplexity.per_word:.3f}", "", ""])
    if report.contrastive_accuracy is not None and evaluation.contrast:
        cases = f"{counted(evaluation.contrast.lines or 0, 'case')} of {evaluation.contrast.name}"
        rows.append(["contrastive accuracy", f"{report.contrastive_accuracy:.1%}", "", cases])
    how = f"{evaluation.search}, {evaluation.seconds:,.1f} s, {code(evaluation)}; {evaluation.machine.describe()}"
    rows.append(["translated", counted(report.num_lines, "line"), "", how])
    rows.append(["test set, SHA-256", "", "", evaluation.sha256])
    return Section(f"Scores on {evaluation.name}", rows)


# ------------------------------------------------------------------------------------------------- several side by side


class Row(Struct, frozen=True):
    """Cards that stand together in one row: one, or those of several seeds."""

    name: str
    cards: tuple[Card, ...]


class Cell(Struct, frozen=True):
    """A figure of a row: the mean over its cards, and their standard deviation where there are several."""

    mean: float
    spread: float | None = None

    def show(self, digits: int = 2) -> str:
        """`41.23` or `41.23 ± 0.20`."""
        spread = "" if self.spread is None else f" ± {self.spread:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}"


class Line(Struct, frozen=True):
    """A row's figures on one test set, searched in one way; seeds are those of the cards that have such figures.

    The comparisons are with the first row that was searched alike, by paired bootstrap.
    """

    name: str
    seeds: tuple[int | None, ...]
    search: str
    cells: dict[str, Cell]
    comparisons: dict[str, Comparison] = {}


class Block(Struct, frozen=True):
    """One test set and one kind of BLEU, and every row that was so scored on it."""

    test: str
    sha256: str
    signature: str
    lines: tuple[Line, ...]


def rows_of(cards: Sequence[Card]) -> list[Row]:
    """One row a card."""
    return [Row(card.name, (card,)) for card in cards]


def rows_by_recipe(cards: Sequence[Card]) -> list[Row]:
    """Cards that differ in nothing but the seed make one row; of several cards of one model the fullest counts."""
    groups: dict[bytes, dict[str, Card]] = {}
    for card in cards:
        group = groups.setdefault(_recipe(card), {})
        same = group.get(card.weights_sha256, card)
        group[card.weights_sha256] = max(same, card, key=lambda each: len(each.evaluations))
    rows = [tuple(group.values()) for group in groups.values()]
    return [Row(row[0].name, row) for row in rows]


def _recipe(card: Card) -> bytes:
    """What two cards share that differ in the seed alone: settings but train.seed, training text, sizes."""
    unseeded = {name: value for name, value in card.config.get("train", {}).items() if name != "seed"}
    config = card.config | {"train": unseeded}
    training = card.training
    digests = [file.sha256 for file in (*training.training.source, *training.training.target)] if training else []
    return msgspec.json.encode([config, card.vocab_size, digests], order="sorted")


class Scored(Struct, frozen=True):
    """A card's scores on one test set."""

    card: Card
    evaluation: Evaluation


def scored_alike(row: Row) -> dict[tuple[str, str, str], list[Scored]]:
    """The scores of a row by `Evaluation.conditions`; a card that has a test set under two names counts once."""
    found: dict[tuple[str, str, str], list[Scored]] = {}
    for card in row.cards:
        for evaluation in card.evaluations:
            scored = found.setdefault(evaluation.conditions, [])
            if not scored or scored[-1].card is not card:
                scored.append(Scored(card, evaluation))
    return found


def blocks(rows: Sequence[Row]) -> list[Block]:
    """Every test set and kind of BLEU, in the order in which the cards name them."""
    kinds = {each.conditions[:2]: each.name for row in rows for card in row.cards for each in card.evaluations}
    return [Block(name, *kind, tuple(_lines(kind, rows))) for kind, name in kinds.items()]


def _lines(kind: tuple[str, str], rows: Sequence[Row]) -> Iterator[Line]:
    first: dict[str, list[Scored]] = {}
    for row in rows:
        for (*this, search), scored in scored_alike(row).items():
            if tuple(this) == kind:
                yield _line(row, search, scored, first.setdefault(search, scored))


def _line(row: Row, search: str, scored: Sequence[Scored], first: Sequence[Scored]) -> Line:
    seeds = tuple(each.card.training.seed if each.card.training else None for each in scored)
    figures = {name: cell([value(each.evaluation.report) for each in scored]) for name, value in FIGURES.items()}
    cells = {name: figure for name, figure in figures.items() if figure}
    compared = scored is not first and len(scored) == len(first) == 1
    comparisons = compare(first[0].evaluation, scored[0].evaluation) if compared else {}
    return Line(row.name, seeds, search, cells, comparisons)


def cell(values: Sequence[float | None]) -> Cell | None:
    """Mean and standard deviation; None where a value is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return Cell(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None)


def compare(baseline: Evaluation, system: Evaluation) -> dict[str, Comparison]:
    """Paired bootstrap on what both cards counted in each sentence, under the same conditions."""
    shared = [name for name in (BLEU, CHRF) if name in baseline.sentence_counts and name in system.sentence_counts]
    return {
        name: paired_bootstrap(
            name, unpack(name, baseline.sentence_counts[name]), unpack(name, system.sentence_counts[name])
        )
        for name in shared
    }


FIGURES: dict[str, Callable[[Report], float | None]] = {
    "BLEU": lambda report: report.bleu.value,
    "chrF2": lambda report: report.chrf.value,
    "TER": lambda report: report.ter.value,
    "BLEU, paper's": lambda report: report.paper_bleu.value if report.paper_bleu else None,
    "BLEU, lc tok": lambda report: report.lowercased_tokenised.value if report.lowercased_tokenised else None,
    "perplexity": lambda report: report.perplexity.per_piece if report.perplexity else None,
    "contrast, %": lambda report: None if report.contrastive_accuracy is None else 100 * report.contrastive_accuracy,
}


def side_by_side(rows: Sequence[Row], form: Form) -> str:
    """Several rows as one table a test set, behind a table of how they were trained."""
    sections = [Section("Training", _training_rows(rows)), *(_block_section(block) for block in blocks(rows))]
    show = _markdown if form == "md" else _text
    notes = (
        "± behind a mean: the standard deviation over seeds. p: paired bootstrap against the first row that was "
        "searched alike, 1,000 draws"
    )
    return "\n\n".join([*map(show, sections), notes])


def _training_rows(rows: Sequence[Row]) -> Rows:
    heading = ["card", "seed", "pair", "parameters", "steps", "s", "target tokens/s", "GPU-hours", "machine", "code"]
    return [heading, *(_training_row(row) for row in rows)]


def _training_row(row: Row) -> list[str]:
    card, trainings = row.cards[0], [card.training for card in row.cards if card.training]
    start = [row.name, _seeds(training.seed for training in trainings)]
    start += [f"{card.source_language}→{card.target_language}", f"{card.parameters:,}"]
    if not trainings:
        return [*start, "", "", "", "", "", ""]
    seconds, speeds = ([getattr(t, name) for t in trainings] for name in ("seconds", "tokens_per_second"))
    hours = [t.gpu_hours for t in trainings if t.gpu_hours is not None]
    return [
        *start,
        f"{statistics.fmean(t.steps for t in trainings):,.0f}",
        f"{statistics.fmean(seconds):,.1f}",
        f"{statistics.fmean(speeds):,.0f}",
        f"{statistics.fmean(hours):.3f}" if hours else "",
        machines(trainings[0]),
        codes(trainings[0]),
    ]


def _seeds(seeds: Iterable[int | None]) -> str:
    return ", ".join("?" if seed is None else str(seed) for seed in seeds)


def _block_section(block: Block) -> Section:
    names = [name for name in FIGURES if any(name in line.cells for line in block.lines)]
    tested = [name for name in (BLEU, CHRF) if any(name in line.comparisons for line in block.lines)]
    heading = ["card", "seed", "search", *names, *(f"Δ {name} (p)" for name in tested)]
    rows = [heading]
    for line in block.lines:
        cells = [line.cells[name].show() if name in line.cells else "" for name in names]
        deltas = [_delta(line.comparisons.get(name)) for name in tested]
        rows.append([line.name, _seeds(line.seeds), line.search, *cells, *deltas])
    return Section(f"{block.test} ({block.sha256[:8]}; {block.signature})", rows)


def _delta(comparison: Comparison | None) -> str:
    return "" if comparison is None else f"{comparison.difference:+.2f} ({comparison.p_value:.3f})"


def to_builtins(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The figures of `side_by_side`, for programs."""
    compared: list[dict[str, Any]] = msgspec.to_builtins(blocks(rows))
    return compared


# ------------------------------------------------------------------------------------------------------- text, Markdown


def _text(section: Section) -> str:
    body = section.lines or plain_table([row for row in section.rows if any(row)])
    return "\n".join([section.title, *(f"  {line}" for line in body)])


def _markdown(section: Section) -> str:
    body = [*markdown_table(section.rows)] if section.rows else ["```toml", *section.lines, "```"]
    return "\n".join([f"## {section.title}", "", *body])


def markdown_table(rows: Rows) -> list[str]:
    """A table with its heading."""
    heading, *rest = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [heading, "|" + "---|" * len(rows[0]), *rest]
