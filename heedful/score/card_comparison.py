"""Cards side by side: what they differ in, and which is better on the test sets that they part.

Two cards are compared over the sentences of a test set (paired bootstrap), two recipes over their seeds (t-tests).
It knows cards and figures; a single card is shown by `card_tables.py`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from heedful.config.learning_rate import cooldown
from heedful.config.setting_layers import Layer, to_layer
from heedful.config.setting_names import FAMILIES
from heedful.config.settings import TEXT_FILES, Config
from heedful.data.text_files import uncompressed
from heedful.score.bootstrap import BLEU, CHRF, Comparison, paired_bootstrap, unpack
from heedful.score.card import Card, Evaluation, Training
from heedful.score.card_tables import base, codes, machines, precisions
from heedful.score.report import Report
from heedful.score.t_test import MIN_SEEDS, SeedComparison, compare_seeds
from heedful.score.tables import Rows, Section, show_markdown, show_text

Form: TypeAlias = Literal["text", "md"]
Over: TypeAlias = Literal["sentences", "seeds"]  # what a difference is tested over

CAUTION = (
    "each row is one seed, and a p-value over test sentences says nothing about other seeds: "
    f"train {MIN_SEEDS} seeds or more of each and add --seeds."
)


class Row(Struct, frozen=True):
    """The cards of one row: one, or those of several seeds."""

    name: str
    cards: tuple[Card, ...]


class Cell(Struct, frozen=True):
    """A figure of a row: the mean over its cards, and the standard deviation if there are several."""

    mean: float
    spread: float | None = None

    def show(self, digits: int = 2) -> str:
        """`41.23` or `41.23 ± 0.20`."""
        spread = "" if self.spread is None else f" ± {self.spread:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}"


class Line(Struct, frozen=True):
    """A row's figures on one test set with one search, and the seeds of the cards that have them.

    It is compared with the first row that has the same search: over sentences by paired bootstrap, with a caution, or
    over seeds.
    """

    name: str
    seeds: tuple[int | None, ...]
    search: str
    cells: dict[str, Cell]
    comparisons: dict[str, Comparison] = {}
    seed_comparisons: dict[str, SeedComparison] = {}
    caution: str = ""


class Block(Struct, frozen=True):
    """One test set and one kind of BLEU, and the rows that have such scores."""

    test: str
    sha256: str
    signature: str
    lines: tuple[Line, ...]


def told_apart(cards: Sequence[Card], places: Sequence[str]) -> list[Card]:
    """The cards; the name of those that part name and seed gets their place added."""
    keys = [(card.name, card.training and card.training.seed) for card in cards]
    return [
        msgspec.structs.replace(card, name=f"{card.name} ({place})") if keys.count(key) > 1 else card
        for card, place, key in zip(cards, places, keys, strict=True)
    ]


def rows_of(cards: Sequence[Card]) -> list[Row]:
    """A row for each card."""
    return [Row(card.name, (card,)) for card in cards]


def rows_by_recipe(cards: Sequence[Card]) -> list[Row]:
    """A row for all cards that differ only in the seed, named after the first one with scores.

    Of several cards of one model the one with the most scores counts. A row has each seed once: a second run with the
    same seed, as on another machine, gets a row of its own.
    """
    groups: dict[bytes, dict[str, Card]] = {}
    for card in cards:
        group = groups.setdefault(_recipe(card), {})
        same = group.get(card.weights_sha256, card)
        group[card.weights_sha256] = max(same, card, key=lambda each: len(each.evaluations))
    rows = [row for group in groups.values() for row in _one_of_each_seed(group.values())]
    return [Row(max(row, key=lambda card: bool(card.evaluations)).name, tuple(row)) for row in rows]


def _one_of_each_seed(cards: Iterable[Card]) -> list[list[Card]]:
    rows: list[list[Card]] = []
    for card in cards:
        row = next((row for row in rows if _seed(card) not in map(_seed, row)), None)
        if row is None:
            rows.append(row := [])
        row.append(card)
    return rows


def _seed(card: Card) -> int | None:
    seed: int | None = card.config.get("train", {}).get("seed")
    return seed


def _recipe(card: Card) -> bytes:
    """What cards that differ only in the seed part: all other settings, text, vocabulary size, precision, history."""
    config, training = _resolved(card), card.training
    config["train"].pop("seed", None)
    if training is None:
        return msgspec.json.encode([config, card.vocab_size], order="sorted")
    for name in TEXT_FILES:  # their content counts
        config["data"].pop(name, None)
    began_from = training.base and training.base.weights_sha256
    history = [precisions(training), began_from, _other_ends(training, config)]
    return msgspec.json.encode([config, card.vocab_size, _texts(training), history], order="sorted")


def _texts(training: Training) -> list[list[str]]:
    """The digest of each file of each side, or its name if the digest is not known."""
    corpora = [corpus for corpus in (training.training, training.validation) if corpus]
    sides = [side for corpus in corpora for side in (corpus.source, corpus.target)]
    return [[file.sha256 or file.name for file in side] for side in sides]


def _other_ends(training: Training, config: Layer) -> list[str]:
    """Earlier plans of the run's end under which its learning rate was another; "?" for one that is not known."""
    now, is_cooled = _end(**config["train"]), bool(config["train"].get("cooldown_steps"))
    found, done = [], training.steps - sum(part.steps for part in training.shares)
    for part in training.shares:
        done, own = done + part.steps, _end(part.planned_steps, part.cooldown_steps)
        if not part.planned_steps:
            found += ["?"] if is_cooled and part is not training.shares[-1] else []
        elif cooldown(done, **own) != cooldown(done, **now):
            found.append(f"{part.planned_steps:,}, {part.cooldown_steps:,} of them cooling down")
    return found


def _end(steps: int = 0, cooldown_steps: int = 0, **_: Any) -> dict[str, int]:
    return {"steps": steps, "cooldown_steps": cooldown_steps}


def _resolved(card: Card) -> Layer:
    """The settings of a card. Settings that are newer than the card are at their default, which is off."""
    config, defaults = card.config, to_layer(Config()) | {"model": _family_defaults(card)}
    return {section: defaults.get(section, {}) | config.get(section, {}) for section in defaults | config}


def _family_defaults(card: Card) -> dict[str, Any]:
    """The settings under [model] of the card's family; of one that is not known here there are only the card's own."""
    family = FAMILIES.get(card.family)
    settings = msgspec.to_builtins(family()) if family else {}
    return {name: value for name, value in settings.items() if value is not None}


class Scored(Struct, frozen=True):
    """A card's scores on one test set."""

    card: Card
    evaluation: Evaluation


def scored_alike(row: Row) -> dict[tuple[str, str, str], list[Scored]]:
    """The scores of a row by `Evaluation.conditions`; a card with one test set under two names counts once."""
    found: dict[tuple[str, str, str], list[Scored]] = {}
    for card in row.cards:
        for evaluation in card.evaluations:
            scored = found.setdefault(evaluation.conditions, [])
            if not scored or scored[-1].card is not card:
                scored.append(Scored(card, evaluation))
    return found


def blocks(rows: Sequence[Row], over: Over = "sentences") -> list[Block]:
    """A block for every test set and kind of BLEU, in the order of the cards."""
    kinds = {each.conditions[:2]: each.name for row in rows for card in row.cards for each in card.evaluations}
    return [Block(name, *kind, tuple(_lines(kind, rows, over))) for kind, name in kinds.items()]


def _lines(kind: tuple[str, str], rows: Sequence[Row], over: Over) -> Iterator[Line]:
    first: dict[str, list[Scored]] = {}
    for row in rows:
        for (*this, search), scored in scored_alike(row).items():
            if tuple(this) == kind:
                line = _line(row, search, scored)
                baseline = first.setdefault(search, scored)
                yield line if scored is baseline else _compared(line, baseline, scored, over)


def _line(row: Row, search: str, scored: Sequence[Scored]) -> Line:
    seeds = tuple(each.card.training.seed if each.card.training else None for each in scored)
    found = [_figures(each.evaluation) for each in scored]
    cells = {name: figure for name in found[0] if (figure := cell([each.get(name) for each in found]))}
    return Line(row.name, seeds, search, cells)


def _compared(line: Line, baseline: Sequence[Scored], scored: Sequence[Scored], over: Over) -> Line:
    """The line with its comparisons; rows of several seeds are not compared over sentences."""
    if over == "seeds":
        tests = {name: compare_seeds(_by_seed(name, baseline), _by_seed(name, scored)) for name in (BLEU, CHRF)}
        return msgspec.structs.replace(line, seed_comparisons=tests)
    if len(baseline) > 1 or len(scored) > 1:
        return line
    found = compare(baseline[0].evaluation, scored[0].evaluation)
    return msgspec.structs.replace(line, comparisons=found, caution=CAUTION if found else "")


def _by_seed(metric: str, scored: Sequence[Scored]) -> dict[str, float]:
    """A score by seed; a card of unknown seed gets a key of its own."""
    found = {}
    for each in scored:
        seed, report = _seed(each.card), each.evaluation.report
        score = report.bleu if metric == BLEU else report.chrf
        found[each.card.weights_sha256 if seed is None else str(seed)] = score.value
    return found


def cell(values: Sequence[float | None]) -> Cell | None:
    """Mean and standard deviation; None if a value is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return Cell(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None)


def compare(baseline: Evaluation, system: Evaluation) -> dict[str, Comparison]:
    """Paired bootstrap on the sentence counts of both cards, under the same conditions."""
    shared = [name for name in (BLEU, CHRF) if name in baseline.sentence_counts and name in system.sentence_counts]
    both = {name: [unpack(name, each.sentence_counts[name]) for each in (baseline, system)] for name in shared}
    return {name: paired_bootstrap(name, *counts) for name, counts in both.items()}


FIGURES: dict[str, Callable[[Report], float | None]] = {
    "BLEU": lambda report: report.bleu.value,
    "chrF2": lambda report: report.chrf.value,
    "TER": lambda report: report.ter.value,
    "BLEU, paper's": lambda report: report.paper_bleu.value if report.paper_bleu else None,
    "BLEU, lc tok": lambda report: report.lowercased_tokenised.value if report.lowercased_tokenised else None,
    "perplexity, piece": lambda report: report.perplexity.per_piece if report.perplexity else None,
    "perplexity, word": lambda report: report.perplexity.per_word if report.perplexity else None,
}


def _figures(evaluation: Evaluation) -> dict[str, float | None]:
    """Figures by the names of their columns; that of a contrast is named by the digest of its pairs."""
    figures = {name: value(evaluation.report) for name, value in FIGURES.items()}
    if (accuracy := evaluation.report.contrastive_accuracy) is not None:
        digest = (evaluation.contrast and evaluation.contrast.sha256) or "?"
        figures[f"contrast, % ({digest[:8]})"] = 100 * accuracy
    return figures


def side_by_side(rows: Sequence[Row], form: Form, over: Over = "sentences") -> str:
    """A table for each test set, after tables of how the rows were trained and in which settings they differ."""
    heading = ["card", "seed", "pair", "parameters", "steps", "s", "target tokens/s", "GPU-hours", "machine", "code"]
    settings, tests = _setting_rows(rows), blocks(rows, over)
    sections = [Section("Training", [heading, *map(_training_row, rows)])]
    sections += [Section("Settings that differ", settings)] if len(settings) > 1 else []
    sections += [_block_section(block) for block in tests]
    show = show_markdown if form == "md" else show_text
    return "\n\n".join(filter(None, [*map(show, sections), _notes(tests)]))


def _notes(tests: Sequence[Block]) -> str:
    lines = [line for block in tests for line in block.lines]
    notes = ["± after a mean: the standard deviation over seeds."] if any(len(line.seeds) > 1 for line in lines) else []
    if any(line.comparisons for line in lines):
        notes += ["p: paired bootstrap against the first row that was searched alike, 1,000 draws, one-sided."]
        notes += [f"Caution: {CAUTION}"]
    if any(line.seed_comparisons for line in lines):
        notes += [
            "Δ against the first row that was searched alike, with its 95 % interval, p (two-sided) and number of"
        ]
        notes += ["seeds: paired t-test where the seeds are the same, else Welch's; no p below three seeds."]
    if any(len({line.search for line in block.lines}) > 1 for block in tests):
        notes += ["To compare what was searched otherwise, evaluate again with the same -b, --alpha and --precision."]
    return " ".join(notes)


def _setting_rows(rows: Sequence[Row]) -> Rows:
    """A line for each setting in which the rows differ; the seed has a column of its own."""
    found = [_settings(row.cards[0]) for row in rows]
    names = [name for name in dict.fromkeys(name for each in found for name in each) if name != "train.seed"]
    unlike = [name for name in names if len({each.get(name, "") for each in found}) > 1]
    return [
        ["setting", *(row.name for row in rows)],
        *([name, *(each.get(name, "") for each in found)] for name in unlike),
    ]


def _settings(card: Card) -> dict[str, str]:
    """The settings of a card, short digests of its text, and the model it was fine-tuned from."""
    config, training = _resolved(card), card.training
    for name in TEXT_FILES:  # the same text, compressed or not
        config["data"][name] = [uncompressed(Path(file)).name for file in config["data"].get(name, ())]
    settings = {
        f"{section}.{name}": " ".join(map(str, value)) if isinstance(value, list) else str(value)
        for section, fields in config.items()
        for name, value in fields.items()
    }
    return settings | (_history(training, config) if training else {})


def _history(training: Training, config: Layer) -> dict[str, str]:
    """What makes another recipe and is not a setting."""
    texts = {
        f"{part} text, SHA-256": " ".join((file.sha256 or "?")[:8] for file in (*corpus.source, *corpus.target))
        for part, corpus in (("training", training.training), ("validation", training.validation))
        if corpus
    }
    ends = "; ".join(_other_ends(training, config))
    return texts | {"precision": precisions(training), "fine-tuned from": base(training), "planned before": ends}


def _training_row(row: Row) -> list[str]:
    card, trainings = row.cards[0], [card.training for card in row.cards if card.training]
    start = [row.name, _seeds(training.seed for training in trainings)]
    start += [f"{card.source_language}→{card.target_language}", f"{card.parameters:,}"]
    if not trainings:
        return [*start, "", "", "", "", "", ""]
    seconds, speeds = ([getattr(t, name) for t in trainings] for name in ("seconds", "tokens_per_second"))
    hours = cell([t.gpu_hours for t in trainings])
    return [
        *start,
        f"{statistics.fmean(t.steps for t in trainings):,.0f}",
        f"{statistics.fmean(seconds):,.1f}",
        f"{statistics.fmean(speeds):,.0f}",
        f"{hours.mean:.3f}" if hours else "",
        machines(*trainings),
        codes(*trainings),
    ]


def _seeds(seeds: Iterable[int | None]) -> str:
    return ", ".join("?" if seed is None else str(seed) for seed in seeds)


def _block_section(block: Block) -> Section:
    shown = [name for line in block.lines for name in line.cells]
    names = [name for name in dict.fromkeys([*FIGURES, *shown]) if name in shown]
    deltas = [_deltas(line) for line in block.lines]
    tested = list(dict.fromkeys(name for each in deltas for name in each))
    rows = [["card", "seed", "search", *names, *tested]]
    for line, delta in zip(block.lines, deltas, strict=True):
        cells = [line.cells[name].show() if name in line.cells else "" for name in names]
        rows.append([line.name, _seeds(line.seeds), line.search, *cells, *(delta.get(name, "") for name in tested)])
    return Section(f"{block.test} ({block.sha256[:8]}; {block.signature})", rows)


def _deltas(line: Line) -> dict[str, str]:
    """The comparisons of a line by the headings of their columns."""
    over_sentences = {
        f"Δ {name} (p)": f"{found.difference:+.2f} ({found.p_value:.3f})" for name, found in line.comparisons.items()
    }
    return over_sentences | {f"Δ {name} over seeds": over_seeds(each) for name, each in line.seed_comparisons.items()}


def over_seeds(found: SeedComparison) -> str:
    """A comparison in words: `+1.20 [+0.30, +2.10], p 0.021 (paired t, n = 3)`."""
    baseline, system = found.num_seeds
    seeds = f"n = {system}" if found.test == "paired t" else f"n = {system} against {baseline}"
    if found.p_value is None or found.interval is None:
        return f"{found.difference:+.2f} ({seeds}: too few for a test)"
    low, high = found.interval
    p_value = "p < 0.001" if found.p_value < 0.001 else f"p {found.p_value:.3f}"
    return f"{found.difference:+.2f} [{low:+.2f}, {high:+.2f}], {p_value} ({found.test}, {seeds})"


def to_builtins(rows: Sequence[Row], over: Over = "sentences") -> list[dict[str, Any]]:
    """The figures of `side_by_side`, for programs."""
    compared: list[dict[str, Any]] = msgspec.to_builtins(blocks(rows, over))
    return compared
