"""How the measurements are called; what they measure takes minutes, and is no matter of tests."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from benchmarks import cpu_speed, record

FOLDER = Path(record.__file__).parent
MEASUREMENTS = sorted(p.stem for p in FOLDER.glob("*.py") if "__main__" in p.read_text(encoding="utf-8"))
KEEPING = [
    name
    for name in MEASUREMENTS
    if name not in ("alignment", "attention", "code_lines", "packages", "pictures", "same_bits", "tables", "walk")
]


def call(name: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """`python -m benchmarks.NAME …` in this process: what it leaves with."""
    monkeypatch.setattr("sys.argv", [name, *arguments])
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
    with pytest.raises(SystemExit) as left:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    return left.value.code


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_help_says_how_it_is_called_and_measures_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(name, "--help", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert f"python -m benchmarks.{name}" in said
    assert ("--keep" in said) == (name in KEEPING)


@pytest.mark.parametrize("asked", [[], ["--keep"]], ids=["not asked for", "asked for"])
def test_a_result_is_kept_when_asked_for_alone(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(cpu_speed, "training_speed", lambda *_: {"ours": 1})
    monkeypatch.setattr(cpu_speed, "decoding_speed", lambda *_: {"beam 4": 1})
    monkeypatch.setattr("sys.argv", ["cpu_speed", *asked])
    cpu_speed.main()
    assert "{'beam 4': 1}" in capsys.readouterr().out
    assert len(list(tmp_path.iterdir())) == len(asked)


@pytest.mark.parametrize("name", KEEPING)
def test_no_measurement_writes_a_result_in_another_way(name: str) -> None:
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert not re.search(r"record import .*\bsave\b", source)


MISTAKES = {
    "alignment": ["nope"],
    "attention": ["nope"],
    "input_path": ["nope", "nope", "--tokenizer", "nope"],
    "pictures": ["nope", "nope"],
    "quantization": ["nope"],
    "same_loss": ["nope", "--name", "any"],
    "serve_load": ["any", "nope"],
    "train_speed": ["nope"],
    "translate_cuda": ["nope"],
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_not_there_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("benchmarks.command.need_gpu", lambda: None)
    assert call(name, *MISTAKES[name], monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert said.startswith("nope")
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", ["alignment", "attention", "pictures", "train_speed", "translate_cuda"])
def test_what_is_not_said_is_asked_for(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(name, monkeypatch=monkeypatch) == 2
    assert "the following arguments are required" in capsys.readouterr().err


def test_a_machine_without_a_gpu_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert call("train_speed", "any", monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err.startswith("this measurement is one of a GPU, and torch ")
