"""A lab of two rows of a few steps: trained, killed and gone on, used again, and refused where it is another."""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from click.testing import CliRunner

from heedful.cli.main import commands
from heedful.cli.progress import PlainDisplay
from heedful.config.setting_layers import Layer
from heedful.config.settings import Config
from heedful.data.atomic import held, write_file
from heedful.errors import CheckpointError, ConfigError, DataError, TrainingError
from heedful.lab import catalogue, row_result, rows, speeds
from heedful.lab.experiment import BASE, Claim, Experiment, LabRequest, Row
from heedful.lab.experiments.scaling import softmax_gradients
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.quality import quality
from heedful.lab.row_result import RowResult
from heedful.lab.running import Finished, forget_rows, run_experiment
from heedful.lab.text import PreparedText
from heedful.lab.trained import Trained
from heedful.train import time_estimate
from heedful.train.loop import CheckpointRecord, Record

pytestmark = pytest.mark.slow

STEPS = 8
SMALL: Layer = {
    "model": {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2},
    "train": {"batch_tokens": 128, "checkpoint_steps": 2},
    "data": {"max_length": 20},
    "decode": {"max_extra": 5},
}
EXPERIMENT = Experiment(
    name="small",
    question="Does one head suffice?",
    section="§3.2.2",
    minutes=1,
    steps=STEPS,
    settings=SMALL,
    rows=(Row(BASE, "2 heads"), Row("h1", "1 head", {"model": {"num_heads": 1}})),
    claims=(
        Claim(row="h1", metric=PERPLEXITY, expected="higher", source="5.29 against 4.92"),
        Claim(row="h1", metric=BLEU, expected="same", source="24.9 against 25.8", margin=1.0),
    ),
    quick=(BASE,),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nonsense words, and the same in the other order."""
    folder, draw = tmp_path_factory.mktemp("nonsense"), random.Random(1)
    words = [a + b for a in "bdgklm" for b in "aeio"]
    lines = [[draw.choice(words) for _ in range(draw.randint(1, 7))] for _ in range(220)]
    for name, part in {"train": lines[:200], "valid": lines[200:]}.items():
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in part), encoding="utf-8")
        (folder / f"{name}.de").write_text("".join(f"{' '.join(line[::-1])}\n" for line in part), encoding="utf-8")
    return folder


class Watch:
    """Hears what a lab says, and may end it after a number of checkpoints."""

    def __init__(self, *, stop_after: int = 10**9, end: Callable[[], None] | None = None) -> None:
        self.checkpoints, self.stop_after, self.end, self.said = 0, stop_after, end, list[str]()

    def hear(self, _: Config, record: Record) -> None:
        self.checkpoints += isinstance(record, CheckpointRecord)
        if self.end and self.checkpoints >= self.stop_after:
            self.end()

    def stop(self) -> bool:
        return self.end is None and self.checkpoints >= self.stop_after


def run(
    output: Path, data: Path | None, *, seeds: tuple[int, ...] = (1, 2), watch: Watch | None = None, **changes: Any
) -> Finished:
    watch = watch or Watch()
    request = LabRequest(output, data, seeds=seeds, device="cpu", command="heedful lab small")
    experiment = msgspec.structs.replace(EXPERIMENT, **changes)
    return run_experiment(experiment, request, say=watch.said.append, on_record=watch.hear, stop=watch.stop)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A finished lab, which no test changes."""
    output = tmp_path_factory.mktemp("lab")
    assert run(output, data).is_whole
    return output


@pytest.fixture
def own(lab: Path, tmp_path: Path) -> Path:
    """A copy of the results, without the runs."""
    output = tmp_path / "lab"
    for path in (lab / "rows").rglob("*.json"):
        write_to = output / path.relative_to(lab)
        write_to.parent.mkdir(parents=True, exist_ok=True)
        write_to.write_bytes(path.read_bytes())
    return output


def result(output: Path, row: str, seed: int) -> RowResult:
    (path,) = output.glob(f"rows/*/{row}-{seed}.json")
    loaded = row_result.load(path)
    assert loaded
    return loaded


def no_training(*_: object, **__: object) -> None:
    pytest.fail("nothing is to be trained")


def test_the_report_has_the_claims_a_table_of_the_rows_and_pictures(lab: Path) -> None:
    report = (lab / "small" / "report.md").read_text(encoding="utf-8")
    assert "Does one head suffice? (§3.2.2)" in report
    assert re.search(r"\| 1 head: perplexity against 2 heads \| higher \(5.29 against 4.92\) \| .+% \[.+\|", report)
    assert len(re.findall(r"^\| h1 \|", report, flags=re.MULTILINE)) == 1 + 2, "in the table, and once for each seed"
    pictures = re.findall(r"\]\((.+?\.svg)\)", report)
    assert {"perplexity.svg", "bleu.svg", "perplexity-curves.svg"} <= set(pictures)
    for picture in pictures:
        assert ElementTree.parse(lab / "small" / picture).getroot().tag.endswith("svg")
        assert (lab / "small" / picture).with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((lab / "small" / "report.json").read_text(encoding="utf-8"))
    assert [each["verdict"] for each in record["judged"]] == ["cannot be told", "agrees"], "BLEU is 0 after 8 steps"


def test_a_result_names_scores_settings_text_precision_machine_and_command(lab: Path) -> None:
    found = result(lab, "h1", 2)
    assert [point.step for point in found.curve] == [2, 4, 6, 8]
    assert (found.seed, found.steps, found.precision) == (2, STEPS, "fp32")
    assert found.settings["model"]["num_heads"] == 1
    assert found.settings["train"]["cooldown_steps"] == STEPS // 2
    assert found.settings["train"]["average_last"] == 1
    assert len(found.text_sha256) == 64
    assert found.machine.processor
    assert found.command == "heedful lab small"
    assert found.parameters > 0
    assert found.value(PERPLEXITY) == found.curve[-1].perplexity


def test_a_finished_row_keeps_its_model_and_its_card_and_no_checkpoint(lab: Path, data: Path) -> None:
    folder = lab / "runs" / data.name / "base-1"
    assert (folder / "model" / "card.json").is_file()
    assert not (folder / "checkpoints").exists()


def test_finished_rows_are_used_again(own: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "carry_out", no_training)
    watch = Watch()
    assert run(own, data, watch=watch).is_whole
    assert watch.said == ["4 of 4 rows are there already"]


def test_all_rows_share_text_and_vocabulary(lab: Path, data: Path) -> None:
    one, other = (lab / "runs" / data.name / name / "tokenizer.model" for name in ("base-1", "h1-2"))
    assert one.read_bytes() == other.read_bytes()
    assert len({result(lab, row, seed).text_sha256 for row in (BASE, "h1") for seed in (1, 2)}) == 1


# ------------------------------------------------------------------------------------------------------------ measures


@pytest.fixture(scope="module")
def trained(lab: Path, data: Path) -> Trained:
    """The base row of the first seed."""
    text = PreparedText(lab / "texts" / data.name, result(lab, BASE, 1).text_sha256)
    return Trained(lab / "runs" / data.name / "base-1", text, 1, "cpu")


def test_quality_is_that_of_validation(trained: Trained, lab: Path) -> None:
    found = quality(trained.translator(), trained.text.pairs("valid"))
    last = result(lab, BASE, 1).curve[-1]
    assert found == {PERPLEXITY: pytest.approx(last.perplexity, rel=1e-5), BLEU: pytest.approx(last.bleu)}


def test_the_softmax_has_a_gradient_before_and_after_training(trained: Trained) -> None:
    found = softmax_gradients(trained)
    assert set(found) == {"initial gradient", "gradient"}
    assert all(0 < value < 1 for value in found.values())


def test_what_an_experiment_measures_besides_is_measured_once_also_of_older_results(
    lab: Path, data: Path, tmp_path: Path
) -> None:
    asked: list[str] = []

    def count(trained: Trained) -> dict[str, float]:
        asked.append(trained.run.name)
        return {"seed": float(trained.seed)}

    shutil.copytree(lab, tmp_path / "lab")
    claim = Claim(row="h1", metric="counts.seed", expected="same", source="by its name", margin=0.5)
    changes: dict[str, Any] = {"measures": {"counts": count}, "claims": (claim,)}
    done = run(tmp_path / "lab", data, **changes)
    assert sorted(asked) == ["base-1", "base-2", "h1-1", "h1-2"]
    assert "| 1.50 ± 0.71 |" in done.report.read_text(encoding="utf-8")
    assert (tmp_path / "lab" / "small" / "counts-seed.svg").is_file()
    run(tmp_path / "lab", data, **changes)
    assert len(asked) == 4
    shutil.rmtree(tmp_path / "lab" / "runs")
    with pytest.raises(
        CheckpointError, match=r"base-1/model: is missing, but a measurement needs this model; --redo trains it again"
    ):
        run(tmp_path / "lab", data, measures={"more": lambda each: {"blocks": float(each.translator() is None)}})


class KilledError(Exception):
    """Ends a lab amid a step, as a kill would."""


def kill() -> None:
    raise KilledError


def test_an_infinite_measure_is_left_out_and_its_result_can_be_used_again(
    lab: Path, data: Path, tmp_path: Path
) -> None:
    shutil.copytree(lab, tmp_path / "lab")
    claim = Claim(row="h1", metric="any.perplexity", expected="higher", source="none")
    changes: dict[str, Any] = {
        "measures": {"any": lambda _: {PERPLEXITY: math.inf, "words": 2.0}},
        "claims": (claim,),
    }
    for _ in range(2):
        done = run(tmp_path / "lab", data, **changes)
        assert [each.measured for each in done.findings.judged] == [
            "1 head: no value with every seed; 2 heads: no value with every seed"
        ]
    assert result(tmp_path / "lab", "h1", 1).measured == {"any": {"words": 2.0}}


def test_a_stop_ends_a_lab_before_the_next_measurement(lab: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(lab, tmp_path / "lab")
    asked: list[str] = []

    def measure(trained: Trained) -> dict[str, float]:
        asked.append(trained.run.name)
        return {"n": 1.0}

    watch = Watch()
    watch.stop = lambda: len(asked) == 1  # type: ignore[method-assign]
    done = run(tmp_path / "lab", data, watch=watch, measures={"one": measure, "two": measure})
    assert not done.is_whole
    assert asked == ["base-1"]
    assert result(tmp_path / "lab", BASE, 1).measured == {"one": {"n": 1.0}}


def test_a_row_that_is_being_measured_elsewhere_is_put_off(
    lab: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(lab, tmp_path / "lab")
    path = next((tmp_path / "lab").glob("rows/*/base-1.json"))
    other = ExitStack()
    other.enter_context(held(path.with_name(".base-1.lock"), CheckpointError("it is ours")))
    asked: list[str] = []

    def measure(trained: Trained) -> dict[str, float]:
        asked.append(trained.run.name)
        return {"n": 1.0}

    def finish(_: float) -> None:
        measured = msgspec.structs.replace(result(tmp_path / "lab", BASE, 1), measured={"one": {"n": 1.0}})
        row_result.save(path, measured)
        other.close()

    monkeypatch.setattr("heedful.lab.training_rows.time.sleep", finish)
    assert run(tmp_path / "lab", data, measures={"one": measure}).is_whole
    assert sorted(asked) == ["base-2", "h1-1", "h1-2"]


def test_a_killed_lab_goes_on_from_the_last_checkpoint_and_ends_as_if_nothing_had_happened(
    lab: Path, tmp_path: Path, data: Path
) -> None:
    """Killed in its second row."""
    with pytest.raises(KilledError):
        run(tmp_path, data, seeds=(1,), watch=Watch(stop_after=6, end=kill))
    assert [path.stem for path in tmp_path.glob("rows/*/*.json")] == ["base-1"]
    watch = Watch()
    assert run(tmp_path, data, seeds=(1,), watch=watch).is_whole
    assert watch.said[0] == "1 of 2 rows are there already"
    assert any("going on from step" in line for line in watch.said)
    for row in (BASE, "h1"):
        assert result(tmp_path, row, 1).curve == result(lab, row, 1).curve


ALONE = """
import sys
from heedful.cli.main import commands
from heedful.lab import catalogue, report
from tests.lab.test_lab import EXPERIMENT
report.missing = list  # matplotlib: a second for the pictures
catalogue.EXPERIMENTS = (EXPERIMENT,)
commands(sys.argv[1:])
"""


def process(output: Path, data: Path) -> subprocess.Popen[bytes]:
    """`heedful lab small` in a process of its own."""
    words = ["lab", "small", "--data", str(data), "--seeds", "1", "-o", str(output), "--device", "cpu"]
    return subprocess.Popen([sys.executable, "-c", ALONE, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_of_a_process_that_was_killed_two_others_finish_the_rows_as_if_nothing_had_happened(
    lab: Path, tmp_path: Path, data: Path
) -> None:
    """kill -9 after the first checkpoint; then the same command twice at the same time."""
    with process(tmp_path, data) as killed:
        while not any(tmp_path.glob("runs/*/*/checkpoints/step-*")):
            assert killed.poll() is None
            time.sleep(0.002)
        killed.kill()
    assert len([*tmp_path.glob("rows/*/*.json")]) < 2
    with process(tmp_path, data) as one, process(tmp_path, data) as other:
        assert [one.wait(), other.wait()] == [0, 0]
    for row in (BASE, "h1"):
        assert result(tmp_path, row, 1).curve == result(lab, row, 1).curve


def test_a_stopped_lab_reports_what_it_has_and_says_how_long_the_rest_takes(tmp_path: Path, data: Path) -> None:
    watch = Watch(stop_after=6)
    done = run(tmp_path, data, watch=watch)
    assert not done.is_whole
    assert "| base |" in done.report.read_text(encoding="utf-8")
    assert done.findings.judged == (), "a verdict from fewer seeds would be another test"
    told = [line for line in watch.said if " to make, now " in line]
    assert told[0] == "4 rows to make, now base, seed 1; time left: known after the first row"
    assert re.fullmatch(r"3 rows to make, now h1, seed 1; about \d+ seconds? left", told[1])


def test_a_row_that_another_process_makes_is_put_off_and_then_taken_from_it(
    lab: Path, own: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rows are missing; the other process has the first, and has finished it while we make the second."""
    first, second = (next(own.glob(f"rows/*/{name}.json")) for name in ("base-2", "h1-2"))
    made_elsewhere = first.read_bytes()
    first.unlink()
    second.unlink()
    other = ExitStack()
    other.enter_context(held(first.with_name(".base-2.lock"), CheckpointError("it is ours")))

    def finish(_: float) -> None:
        first.write_bytes(made_elsewhere)
        other.close()

    monkeypatch.setattr("heedful.lab.training_rows.time.sleep", finish)
    watch = Watch()
    assert run(own, data, watch=watch).is_whole
    assert [line.partition(";")[0] for line in watch.said if "row" in line] == [
        "2 of 4 rows are there already",
        "2 rows to make, now h1, seed 2",
        "1 row being made by another process: waiting",
    ]
    assert result(own, "h1", 2).curve == result(lab, "h1", 2).curve


# ------------------------------------------------------------------------------------------------------------ refusals


def test_a_lab_of_other_settings_is_refused_with_the_difference(own: Path, data: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.steps = 12, was 8.*-o.*--redo base") as refused:
        run(own, data, steps=12)
    assert "num_heads" not in str(refused.value)


def test_an_unfinished_row_of_other_settings_is_refused_too(tmp_path: Path, data: Path) -> None:
    assert not run(tmp_path, data, watch=Watch(stop_after=2)).is_whole
    with pytest.raises(ConfigError, match=r"base-1: .*model\.d_ff = 48, was 32"):
        run(tmp_path, data, settings={**SMALL, "model": {**SMALL["model"], "d_ff": 48}})


def test_a_lab_of_other_text_is_refused(own: Path, data: Path, tmp_path: Path) -> None:
    other = tmp_path / data.name
    other.mkdir()
    for path in data.iterdir():
        (other / path.name).write_text(path.read_text(encoding="utf-8") + "ba\n", encoding="utf-8")
    run(own, data)
    with pytest.raises(DataError, match=r"the text is \w{8}, was \w{8}"):
        run(own, other)
    assert run(own, data).is_whole, "the text that the rows were trained on is still there"


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [("torch", "1.0.0", r"torch is [\d.]+, was 1\.0\.0"), ("precision", "bf16", "the precision is fp32, was bf16")],
)
def test_a_result_of_another_torch_or_precision_is_refused(
    own: Path, data: Path, field: str, value: str, problem: str
) -> None:
    path = next(own.glob("rows/*/h1-1.json"))
    row_result.save(path, msgspec.structs.replace(result(own, "h1", 1), **{field: value}))
    with pytest.raises(ConfigError, match=problem):
        run(own, data)


def test_a_setting_that_is_newer_than_a_result_had_its_default(own: Path, data: Path) -> None:
    for path in own.glob("rows/*/*.json"):
        older = json.loads(path.read_text(encoding="utf-8"))
        del older["settings"]["train"]["weight_decay"]
        path.write_text(json.dumps(older), encoding="utf-8")
    assert run(own, data).is_whole


def test_a_row_is_made_again_on_request(own: Path, data: Path) -> None:
    request = LabRequest(own, data, seeds=(1,), device="cpu")
    before = result(own, "h1", 1)
    forget_rows([EXPERIMENT], request, ["h1"])
    assert {path.stem for path in own.glob("rows/*/*.json")} == {"base-1", "base-2", "h1-2"}
    assert run(own, data, seeds=(1,)).is_whole
    again = result(own, "h1", 1)
    assert (again.curve, again.date > before.date) == (before.curve, True)
    with pytest.raises(ConfigError, match=r"there is no row 'h2'; did you mean h1\?"):
        forget_rows([EXPERIMENT], request, ["h2"])


def test_a_row_that_another_process_makes_is_not_removed_nor_any_other(own: Path, data: Path) -> None:
    before = sorted(path.name for path in own.glob("rows/*/*.json"))
    request = LabRequest(own, data, seeds=(1, 2), device="cpu")
    lock = next(own.glob("rows/*")) / ".h1-2.lock"
    with (
        held(lock, CheckpointError("it is ours")),
        pytest.raises(CheckpointError, match="another process is making this row"),
    ):
        forget_rows([EXPERIMENT], request, ["base", "h1"])
    assert sorted(path.name for path in own.glob("rows/*/*.json")) == before


def test_a_result_that_cannot_be_written_costs_no_training(
    own: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next(own.glob("rows/*/base-1.json")).unlink()

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(row_result, "write_file", full)
    with pytest.raises(CheckpointError, match=r"base-1\.json: cannot be written \(No space left"):
        run(own, data, seeds=(1,))
    monkeypatch.setattr(row_result, "write_file", write_file)
    watch = Watch()
    assert run(own, data, seeds=(1,), watch=watch).is_whole
    assert any(f"going on from step {STEPS}" in line for line in watch.said)


def test_a_row_that_diverges_is_a_result_without_scores_and_no_verdict(
    own: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverging(*_: object, **__: object) -> None:
        raise TrainingError("the gradient was not finite")

    for path in own.glob("rows/*/h1-*.json"):
        row_result.save(path, msgspec.structs.replace(result(own, "h1", int(path.stem[-1])), diverged="not finite"))
    monkeypatch.setattr(rows, "carry_out", diverging)
    done = run(own, data)
    assert [(each.measured, each.verdict) for each in done.findings.judged] == [
        ("1 head: diverged with every seed", "cannot be told"),
        ("1 head: diverged with every seed", "cannot be told"),
    ]
    assert "1 (diverged), 2 (diverged)" in done.report.read_text(encoding="utf-8")


def test_the_command_prints_table_and_verdicts_and_names_the_report(
    own: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "EXPERIMENTS", (EXPERIMENT,))
    monkeypatch.setattr(rows, "carry_out", no_training)
    words = ["small", "--data", str(data), "--seeds", "1", "2", "-o", str(own), "--device", "cpu"]
    done = CliRunner().invoke(commands, ["lab", *words], catch_exceptions=False)
    assert done.exit_code == 0
    assert "small: Does one head suffice? (§3.2.2)" in done.stdout
    assert re.search(r"^  1 head: perplexity against 2 heads +higher", done.stdout, flags=re.MULTILINE)
    assert f"the report is {own / 'small' / 'report.md'}" in done.stderr


def test_ctrl_c_stops_a_lab_after_a_checkpoint_with_its_exit_code(
    own: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next(own.glob("rows/*/h1-2.json")).unlink()
    monkeypatch.setattr(catalogue, "EXPERIMENTS", (EXPERIMENT,))
    signals = [signal.SIGINT]

    def interrupt(*_: object) -> None:
        if signals:
            os.kill(os.getpid(), signals.pop())

    monkeypatch.setattr(PlainDisplay, "show", interrupt)
    words = ["small", "--data", str(data), "--seeds", "1", "2", "-o", str(own), "--device", "cpu"]
    done = CliRunner().invoke(commands, ["lab", *words])
    assert done.exit_code == 130
    assert "the same command goes on from here" in done.stderr
    assert [*own.glob("runs/*/h1-2/checkpoints/step-*")]


def test_without_a_name_the_experiments_are_listed_with_their_time_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_estimate, "SECONDS", 0.0)
    done = CliRunner().invoke(commands, ["lab", "--device", "cpu"], catch_exceptions=False)
    for experiment in catalogue.EXPERIMENTS:
        assert re.search(rf"^{experiment.name} +[\d,]+ (second|minute|hour|day)s? ", done.stdout, flags=re.MULTILINE)


def test_speeds_are_those_of_real_steps_with_and_without_fast_modules(
    own: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speeds, "SECONDS", 0.0)
    request = LabRequest(own, data, seeds=(1, 2), device="cpu")
    found = speeds.measure_speeds(EXPERIMENT, request, lambda _: None)
    assert set(found.seconds_per_step) == {"base", "base, plain torch", "h1", "h1, plain torch"}
    assert all(0 < value < 10 for value in found.seconds_per_step.values())
    loaded = speeds.load_speeds(own / "small")
    assert msgspec.json.encode(loaded) == msgspec.json.encode(found)
    assert loaded
    assert speeds.is_timed(loaded, result(own, "h1", 2))
    wider: Layer = {**SMALL, "model": {**SMALL["model"], "d_ff": 48}}
    other = msgspec.structs.replace(result(own, "h1", 2), settings=wider)
    assert not speeds.is_timed(loaded, other)


def test_quick_has_fewer_rows_fewer_steps_and_no_verdict(tmp_path: Path) -> None:
    request = LabRequest(tmp_path, is_quick=True, data=Path("not asked for"))
    assert [row.name for row in EXPERIMENT.chosen_rows(request)] == [BASE]
    assert EXPERIMENT.text_source(request) is None
    long = msgspec.structs.replace(EXPERIMENT, steps=10_000)
    assert long.settings_of(long.rows[0], request)["train"]["steps"] < 1000


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["tabel3"], "there is no experiment 'tabel3'; did you mean table3?"),
        (["table3", "--redo", "h17"], "there is no row 'h17'; did you mean h1?"),
        (["table1", "--time"], "table1 trains nothing, so that there is no step to time"),
    ],
)
def test_an_unknown_experiment_or_row_is_one_line_with_the_nearest_name(words: list[str], problem: str) -> None:
    done = CliRunner().invoke(commands, ["lab", *words])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith(problem)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--redo", "h1"], "--redo needs the name of an experiment"),
        (["--time"], "--time needs the name of an experiment"),
        (["table3", "--time", "--redo", "h1"], "--redo does not go with --time"),
        (["table3", "--quick", "--seeds", "1", "2"], "--seeds does not go with --quick"),
        (["table3", "--seeds", "-1"], "-1 is not in the range"),
    ],
)
def test_options_that_say_nothing_together_are_refused(words: list[str], problem: str) -> None:
    done = CliRunner().invoke(commands, ["lab", *words])
    assert done.exit_code == 2
    assert problem in done.stderr


def test_a_folder_without_the_text_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(commands, ["lab", "table3", "--data", str(tmp_path), "-o", str(tmp_path / "lab")])
    assert isinstance(done.exception, DataError)
    assert "train.en: is not there, nor as .xz or .gz" in str(done.exception)
    assert not (tmp_path / "lab").exists()
