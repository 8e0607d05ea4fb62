"""What a run looks like: plain lines in logs, a bar on a terminal."""

import io
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TextIO

import pytest
from rich.console import Console

from heedful.cli.messages import say
from heedful.cli.progress import LiveDisplay, PlainDisplay, display, duration
from heedful.config.setting_layers import resolve, setting
from heedful.config.settings import Config
from heedful.train.loop import EndRecord, PaceRecord, Scores, StepRecord, ValidationRecord

CONFIG: Config = resolve(setting("train.steps=400"))


def record(step: int) -> StepRecord:
    return StepRecord(step, 3.2, 12.5, 1e-3, 0.7, 1000 * step, 9876.5, 10.0 * step, 0, 10.0 * (400 - step))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (65, "1:05"), (3725, "1:02:05"), (59.6, "1:00"), (9_000_000, "104 days")]
)
def test_durations_are_written_as_on_a_clock(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_log_has_a_line_every_hundred_steps_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    shown = PlainDisplay()
    for step in range(20, 401, 20):
        shown.show(CONFIG, record(step))
    shown.show(CONFIG, ValidationRecord(400, Scores(1.5, 4.48, 31.27)))
    shown.show(CONFIG, EndRecord(400, "steps"))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("/")[0].split()[-1] for line in lines[:5]] == ["20", "100", "200", "300", "400"]
    assert "perplexity 12.50  9,876 target tokens/s  1:03:20 left on this machine" in lines[0]
    assert lines[1].endswith("50:00 left"), "the first line says whose time it is"
    assert "loss 1.500 (not smoothed)  perplexity 4.48  BLEU 31.3 (greedy)" in lines[5]
    assert lines[6] == "trained 400 steps"


def test_a_log_of_a_slow_run_is_not_silent_for_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr("heedful.cli.progress.time.monotonic", lambda: now)
    shown = PlainDisplay()
    shown.show(CONFIG, PaceRecord(1, 12.34, 4923.7))
    for step, seconds in ((20, 12), (40, 6), (60, 6)):
        now += seconds
        shown.show(CONFIG, record(step))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "step       1/400  12.3 s a step  1:22:04 left on this machine"
    assert [line.split("/")[0].split()[-1] for line in lines[1:]] == ["20", "60"]


@pytest.fixture
def nobody() -> Iterator[TextIO]:
    """A log whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    log = os.fdopen(writer, "w")
    yield log
    with pytest.raises(BrokenPipeError):
        log.close()  # what was said is still to be written


def test_a_log_that_nobody_reads_does_not_end_the_work(nobody: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", nobody)
    shown = PlainDisplay()
    for each in (record(100), record(200), ValidationRecord(400, Scores(1.5, 4.48)), EndRecord(400, "steps")):
        shown.show(CONFIG, each)
    say("the model is in run/model")


def test_a_terminal_that_has_gone_does_not_end_the_work(nobody: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nobody, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", nobody)
    with display() as shown:
        assert isinstance(shown, LiveDisplay)
        shown.progress.refresh()
        for each in (record(100), ValidationRecord(400, Scores(1.5, 4.48)), EndRecord(400, "steps")):
            shown.show(CONFIG, each)


def test_on_a_terminal_a_bar_shows_the_same_figures() -> None:
    screen = io.StringIO()
    shown = LiveDisplay(Console(file=screen, force_terminal=True, width=80))
    with shown.progress:
        shown.show(CONFIG, PaceRecord(3, 12.34, 4899.0))
        shown.progress.refresh()
        shown.show(CONFIG, record(20))
        shown.show(CONFIG, ValidationRecord(20, Scores(1.5, 4.48)))
        shown.progress.refresh()
        shown.show(CONFIG, EndRecord(20, "stopped"))
    text = screen.getvalue()
    assert "3/400  12.3 s a step" in text
    assert "step 20/400" in text
    assert "ppl 12.50" in text
    assert "perplexity 4.48" in text
    assert "the same command goes on from here" in text


def test_who_stops_a_run_is_told_how_to_have_a_model_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    PlainDisplay().show(CONFIG, EndRecord(1730, "stopped"))
    assert "stopped at step 1,730;" in (said := capsys.readouterr().err)
    assert "--steps 1730 makes a model of it now" in said


@pytest.mark.parametrize(
    ("perplexity", "text"),
    [(999_999.0, "999999.00"), (2.34e118, "2.3e+118"), (math.inf, "inf"), (math.nan, "nan")],
)
def test_the_perplexity_of_a_run_that_diverges_can_be_read(
    perplexity: float, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = PlainDisplay()
    shown.show(CONFIG, replace(record(100), perplexity=perplexity))
    shown.show(CONFIG, ValidationRecord(100, Scores(272.0, perplexity, 0.0)))
    assert capsys.readouterr().err.count(f"perplexity {text}  ") == 2


def test_who_is_out_of_patience_is_told_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    PlainDisplay().show(CONFIG, EndRecord(20, "patience"))
    assert "no longer falls; a larger train.patience, or 0, goes on" in capsys.readouterr().err


def test_what_a_command_says_stands_above_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    screen = io.StringIO()
    with LiveDisplay(Console(file=screen, force_terminal=True, width=80)).progress:
        say("vocabulary: 400 word pieces")
    assert "\x1b[2Kvocabulary: 400 word pieces\n" in screen.getvalue(), "the bar's line is cleared first"
    assert capsys.readouterr().err == ""


def test_where_nobody_looks_there_is_no_bar() -> None:
    with display() as shown:
        assert type(shown) is PlainDisplay


@pytest.mark.parametrize(("step", "line"), [(1, "trained 1 step"), (2000, "trained 2,000 steps")])
def test_one_step_is_no_plural(step: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    PlainDisplay().show(Config(), EndRecord(step, "steps"))
    assert capsys.readouterr().err == f"{line}\n"
