"""A card in full, as tables. Several cards side by side are shown by `card_comparison.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heedful.config.setting_layers import Layer, layer_to_toml
from heedful.config.settings import DEFAULT_FAMILY
from heedful.errors import counted
from heedful.score.card import Card, Evaluation, TextFile, Training
from heedful.score.report import score_rows
from heedful.score.run_history import TrainingPart
from heedful.score.tables import Rows, Section, show_markdown, show_text


def to_markdown(card: Card) -> str:
    """A card as people read it in a repository."""
    return "\n\n".join([f"# {_title(card)}", *(show_markdown(section) for section in _sections(card))]) + "\n"


def to_text(card: Card) -> str:
    """A card as people read it on a terminal."""
    return "\n\n".join([_title(card), *(show_text(section) for section in _sections(card))])


def _title(card: Card) -> str:
    return f"{card.name}: {card.source_language or '?'} → {card.target_language or '?'}"


def _sections(card: Card) -> list[Section]:
    training = card.training
    family = "" if card.family == DEFAULT_FAMILY else f"{card.family}, "
    facts = [["", ""], ["model", f"{family}{card.parameters:,} parameters, {card.vocab_size:,} word pieces"]]
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
        *([["fine-tuned from", base(training)]] if training.base else []),
        ["average of", f"all steps, train.ema_decay = {decay}" if decay else averaged],
        ["seed", str(training.seed)],
        [
            "trained",
            f"{counted(training.steps, 'step')}, {training.target_tokens:,} target tokens{r_drop_remark(config)}, "
            f"{precisions(training)}",
        ],
        [
            "time",
            f"{training.seconds:,.1f} s, validation included: {training.tokens_per_second:,.0f} target tokens/s{hours}",
        ],
        ["machine", machines(training)],
        ["code", codes(training)],
        ["date", training.date],
    ]


def base(training: Training) -> str:
    """The model that it was fine-tuned from; empty if there is none."""
    return f"{training.base.name}, weights {training.base.weights_sha256[:8]}" if training.base else ""


def r_drop_remark(config: Layer) -> str:
    """A remark on how tokens were counted."""
    return " (R-Drop computes each sentence twice; both count)" if config.get("train", {}).get("r_drop") else ""


def code(of: Training | Evaluation | TrainingPart) -> str:
    """Version and commit."""
    return f"heedful {of.version}" + (f", commit {of.commit}" if of.commit else "")


def codes(*trainings: Training) -> str:
    """Version and commit of all starts."""
    return _all(trainings, code)


def machines(*trainings: Training) -> str:
    """The machines of all starts."""
    return _all(trainings, lambda start: start.machine.describe())


def precisions(*trainings: Training) -> str:
    """The precisions of all starts."""
    return _all(trainings, lambda start: start.precision)


def _all(trainings: Sequence[Training], say: Callable[[Training | TrainingPart], str]) -> str:
    """The distinct answers of all starts, in order; a card that lists no starts counts as one."""
    starts = [start for training in trainings for start in training.shares or (training,)]
    return "; ".join(dict.fromkeys(map(say, starts)))


def _start_rows(training: Training) -> Rows:
    rows = [["date", "steps", "of planned", "target tokens", "s", "precision", "machine", "code"]]
    for part in training.shares:
        cooldown = f", the last {part.cooldown_steps:,} cool down" if part.cooldown_steps else ""
        planned = f"{part.planned_steps:,}{cooldown}" if part.planned_steps else "not known"
        figures = [f"{part.steps:,}", planned, f"{part.target_tokens:,}", f"{part.seconds:,.1f}"]
        rows.append([part.date, *figures, part.precision, part.machine.describe(), code(part)])
    unknown = training.steps - sum(part.steps for part in training.shares) if training.shares else 0
    return [*rows, *([["not known", f"{unknown:,}", "", "", "", "", "", ""]] if unknown else [])]


def _data_rows(training: Training) -> Rows:
    rows = [["part", "file", "lines", "SHA-256 of the text"]]
    for part, corpus in {"training": training.training, "validation": training.validation}.items():
        if corpus:
            rows += [[part, *_file_cells(file)] for file in (*corpus.source, *corpus.target)]
            kept = f"{corpus.counts['kept']:,}" if "kept" in corpus.counts else "not known"
            others = (f"{name.replace('_', ' ')} {num:,}" for name, num in corpus.counts.items() if name != "kept")
            rows += [[part, "pairs kept", kept, ", ".join(others)]]
    return rows


def _file_cells(file: TextFile) -> list[str]:
    lines = "" if file.lines is None else f"{file.lines:,}"
    return [file.name, lines, file.sha256 or "not known: the file was no longer there, or changed"]


def _scores(evaluation: Evaluation) -> Section:
    report, contrast = evaluation.report, evaluation.contrast
    cases = f"{counted(contrast.lines or 0, 'case')} of {contrast.name}" if contrast else ""
    how = f"{evaluation.search}, {evaluation.seconds:,.1f} s, {code(evaluation)}; {evaluation.machine.describe()}"
    rows = [
        *score_rows(report, cases),
        ["translated", counted(report.num_lines, "line"), "", how],
        ["test set, SHA-256", "", "", evaluation.sha256],
        *(["note", "", "", remark] for remark in report.remarks),
    ]
    return Section(f"Scores on {evaluation.name}", rows)
