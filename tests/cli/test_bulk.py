"""`heedful bulk`: the bytes of `heedful translate`, and what bad input gets."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from heedful.cli import progress
from heedful.cli.commands.bulk import bulk
from heedful.translate.translation import Translation, Translator
from tests.cli.running import Run, one_line
from tests.small_models import TEXT, small_model

NUM_LINES = 60


@pytest.fixture(autouse=True)
def times_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.translate.bulk.TIMED_LINES", 4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    languages = {"source_language": "xx", "target_language": "yy"}  # whose alignments nobody need learn first
    return small_model(tmp_path_factory.mktemp("model") / "model", data=languages)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of some words, of several sentences, and blank ones."""
    draw, words = random.Random(1), " ".join(TEXT).split()
    lines = [" ".join(draw.choices(words, k=draw.randint(0, 14))) for _ in range(NUM_LINES)]
    path = tmp_path_factory.mktemp("text") / "in.en"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--engine", "torch", "--greedy"),
        ("--engine", "torch", "--beam-size", 4),
        ("--engine", "ctranslate2", "--greedy"),
        ("--engine", "ctranslate2", "--beam-size", 4),
        ("--beam-size", 3, "--n-best", 3),
        ("--sample", "--seed", 7, "--top-k", 20, "--max-extra", 5),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_the_bytes_are_those_of_translate(
    heedful: Run, model: Path, text: Path, tmp_path: Path, options: tuple[object, ...]
) -> None:
    assert heedful("translate", "-m", model, text, "-o", tmp_path / "whole", *options).code == 0
    out = tmp_path / "out"
    assert heedful("bulk", "plan", text, "-m", model, "-o", out, "--part-lines", 12, *options).code == 0
    for share in ("1/2", "0/2"):
        assert heedful("bulk", "run", out, "--share", share).code == 0
    assert heedful("bulk", "join", out, "-o", tmp_path / "joined").code == 0
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.slow
def test_records_differ_from_those_of_translate_at_most_in_the_last_digits_of_a_number(
    heedful: Run, model: Path, text: Path, tmp_path: Path
) -> None:
    text = Path(shutil.copy(text, tmp_path))
    text.write_text("".join(text.read_text().splitlines(keepends=True)[:24]))
    options = ("--format", "jsonl", "--engine", "torch", "--no-split", "--n-best", 2)
    assert heedful("translate", "-m", model, text, "-o", tmp_path / "whole", *options).code == 0
    assert heedful("bulk", "plan", text, "-m", model, "-o", tmp_path / "out", "--part-lines", 5, *options).code == 0
    assert heedful("bulk", "run", tmp_path / "out").code == 0
    assert heedful("bulk", "join", tmp_path / "out", "-o", tmp_path / "joined").code == 0
    whole, joined = ((tmp_path / name).read_text().splitlines() for name in ("whole", "joined"))
    assert len(joined) == 24
    assert all(is_alike(json.loads(one), json.loads(other)) for one, other in zip(joined, whole, strict=True))


def is_alike(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal but for rounding, which depends on what else is computed at the same time."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_alike(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_alike, one, other))
    return bool(one == pytest.approx(other, abs=1e-4) if isinstance(one, float) else one == other)


@pytest.fixture(scope="module")
def planned(model: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan of 6 parts, and nothing done."""
    out = tmp_path_factory.mktemp("planned") / "out"
    command = ["plan", text, "-m", model, "-o", out, "--part-lines", 10, "--engine", "torch", "--greedy"]
    bulk.main([str(word) for word in command], standalone_mode=False)
    return out


@pytest.fixture
def out(planned: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(planned, tmp_path / "out"))


def test_a_part_is_done_once_and_a_join_that_comes_too_early_writes_nothing(heedful: Run, out: Path) -> None:
    assert heedful("bulk", "run", out, "--part", 5).err == f"{out}: 1 part of 1 finished\n"
    before = (out / "parts/0000/0000005.txt").stat().st_mtime_ns
    assert heedful("bulk", "run", out, "--part", 5).code == 0
    assert (out / "parts/0000/0000005.txt").stat().st_mtime_ns == before
    early = one_line(heedful("bulk", "join", out, "-o", out.parent / "joined"))
    assert "5 parts of 6 not finished; heedful bulk run" in early
    assert not (out.parent / "joined").exists()
    told = heedful("bulk", "status", out).out
    assert "finished   1 part of 6, 10 lines" in told
    assert "missing    5 parts, 50 lines" in told
    assert "time left" in told


def test_the_same_plan_is_left_alone_and_another_one_refused(heedful: Run, out: Path, model: Path, text: Path) -> None:
    before = (out / "plan.json").read_bytes()
    command = ["bulk", "plan", text, "-m", model, "-o", out, "--engine", "torch", "--part-lines", 10]
    assert heedful(*command, "--greedy").code == 0
    assert "holds another plan, or its files have changed; heedful bulk run" in one_line(heedful(*command))
    assert (out / "plan.json").read_bytes() == before


def test_what_cannot_be_run_is_one_line(heedful: Run, out: Path, tmp_path: Path) -> None:
    assert "holds no plan.json" in one_line(heedful("bulk", "run", tmp_path / "nowhere"))
    assert "are three ways to run; choose one" in one_line(heedful("bulk", "run", out, "--part", 1, "--share", "0/2"))
    assert "--part 6: there are 6 parts, numbered from 0" in one_line(heedful("bulk", "run", out, "--part", 6))
    assert "No such command 'plan'" in one_line(heedful("plan")), "it is one of heedful bulk alone"
    for share in ("2/2", "1", "a/b", "-1/2"):
        assert "is no share; the first of eight is 0/8" in one_line(heedful("bulk", "run", out, "--share", share))


def test_what_does_not_work_in_parts_is_refused_with_what_does(heedful: Run, model: Path, text: Path) -> None:
    plan = ("bulk", "plan", text, "-m", model, "-o", text.parent / "out")
    refused = {"--prefix": "heedful translate takes it", "--alignments": "--format jsonl writes the alignment of each"}
    for option, instead in refused.items():
        assert f"{option} does not work in parts; {instead}" in one_line(heedful(*plan, option, text))


def test_another_text_or_model_is_refused(heedful: Run, model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "in").write_text("the cat\nthe dog\n")
    plan = ["bulk", "plan", tmp_path / "in", "-m", tmp_path / "model", "-o", tmp_path / "out", "--engine", "torch"]
    assert heedful(*plan).code == 0
    (tmp_path / "in").write_text("the cat\nthe fog\n")
    assert "in: has changed since the plan was made" in one_line(heedful("bulk", "run", tmp_path / "out"))
    (tmp_path / "in").write_text("the cat\nthe dog\n")
    config = tmp_path / "model/config.toml"
    config.write_text(config.read_text() + "\n")
    assert "config.toml: has changed since the plan was made" in one_line(heedful("bulk", "run", tmp_path / "out"))
    shutil.rmtree(tmp_path / "model")
    assert "model: no such folder" in one_line(heedful("bulk", "run", tmp_path / "out"))


@pytest.mark.slow
def test_a_run_that_goes_on_after_the_plan_was_made_is_refused(heedful: Run, model: Path, tmp_path: Path) -> None:
    for step in (1, 2):
        shutil.copytree(model, tmp_path / f"run/checkpoints/step-0000000{step}")
        shutil.copy(model / "config.toml", tmp_path / "run/config.toml")
        shutil.copy(model / "tokenizer.model", tmp_path / "run/tokenizer.model")
        for name in ("config.toml", "tokenizer.model"):
            (tmp_path / f"run/checkpoints/step-0000000{step}" / name).unlink()
        if step == 1:
            (tmp_path / "in").write_text("the cat\n")
            plan = ["bulk", "plan", tmp_path / "in", "-m", tmp_path / "run", "-o", tmp_path / "out"]
            assert heedful(*plan, "--engine", "torch").code == 0
    assert "and has another model now; plan in a new folder" in one_line(heedful("bulk", "run", tmp_path / "out"))


def test_a_compressed_file_comes_out_compressed(heedful: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"the cat\nthe dog\n"))
    (tmp_path / "joined").mkdir()
    plan = ["bulk", "plan", tmp_path / "in.gz", "-m", model, "-o", tmp_path / "out", "--engine", "torch", "--greedy"]
    assert "unpacked into" in heedful(*plan).err
    assert heedful("bulk", "run", tmp_path / "out").code == 0
    assert heedful("bulk", "join", tmp_path / "out", "-o", tmp_path / "joined").code == 0
    assert gzip.decompress((tmp_path / "joined/in.gz").read_bytes()).count(b"\n") == 2
    assert heedful("bulk", "join", tmp_path / "out", "-o", "-").out.count("\n") == 2


def test_without_ray_workers_are_refused_with_the_line_that_installs_it(
    heedful: Run, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.data.parts.ray_pool.find_spec", lambda name: None)
    assert "-m pip install ray; --share I/N works without" in one_line(heedful("bulk", "run", out, "--workers", 2))


def test_a_part_that_fails_is_told_by_status_and_exit_code_and_may_be_tried_again(
    heedful: Run, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("no good")

    with monkeypatch.context() as patched:
        patched.setattr("heedful.translate.translation.Translator.translate_lines", fail)
        failed = heedful("bulk", "run", out, "--part", 3)
    assert failed.code == 1
    assert "1 part set aside after 3 failures; part 3: RuntimeError: no good" in failed.err
    assert "part 3: RuntimeError: no good" in heedful("bulk", "status", out).out
    assert heedful("bulk", "run", out, "--part", 3).code == 1, "it stays aside"
    assert heedful("bulk", "run", out, "--part", 3, "--retry").code == 0


# --------------------------------------------------------------------------------------------- translate, gone on with


@pytest.mark.slow
def test_a_killed_translation_goes_on_and_is_that_of_one_run(
    heedful: Run, model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.translate.resumable.PART_LINES", 12)
    options = ("-m", model, text, "--engine", "torch", "--beam-size", 2)
    translated = Translator.translate_lines
    begun: list[int] = []

    def interrupted_in_the_fourth_part(self: Translator, lines: Sequence[str], **how: Any) -> Iterator[Translation]:
        begun.append(how["first_line"])
        if len(begun) == 4:
            raise KeyboardInterrupt
        return translated(self, lines, **how)

    with monkeypatch.context() as patched:
        patched.setattr(Translator, "translate_lines", interrupted_in_the_fourth_part)
        stopped = heedful("translate", *options, "-o", tmp_path / "out.de")
        assert stopped.code == 130
        assert "the same command with --resume goes on" in stopped.err
        assert not (tmp_path / "out.de").exists()
        other = heedful("translate", *options, "-o", tmp_path / "out.de", "--resume", "--alpha", 0.1)
        assert "comes from another text, model or search; leave --resume out to begin anew" in one_line(other)
        assert heedful("translate", *options, "-o", tmp_path / "out.de", "--resume").code == 0
    assert begun == [0, 12, 24, 36, *range(36, NUM_LINES, 12)], "what was done is not done again"
    monkeypatch.setattr("heedful.translate.resumable.PART_LINES", 10_000)
    assert heedful("translate", *options, "-o", tmp_path / "whole.de").code == 0
    assert (tmp_path / "out.de").read_bytes() == (tmp_path / "whole.de").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.de", "whole.de"], "and nothing is left over"


def test_memory_does_not_grow_with_the_number_of_lines(
    heedful: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied(self: Translator, lines: Sequence[str], **how: Any) -> Iterator[Translation]:
        return (Translation(line, line.upper(), (), 1) for line in lines)

    monkeypatch.setattr("heedful.translate.resumable.PART_LINES", 100)
    monkeypatch.setattr(Translator, "translate_lines", copied)
    peaks = []
    for num_lines in (200, 200, 2000):  # the first time imports modules
        (tmp_path / "in").write_text(f"{'word ' * 400}\n" * num_lines)
        tracemalloc.start()
        assert heedful("translate", "-m", model, tmp_path / "in", "-o", tmp_path / "out", "--engine", "torch").code == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (tmp_path / "out").read_text() == f"{'WORD ' * 400}\n" * num_lines
    assert peaks[2] - peaks[1] < 1e6, "of 4 MB of text"


def test_what_cannot_be_gone_on_with_is_refused(heedful: Run, model: Path, text: Path, tmp_path: Path) -> None:
    for options in (
        [text],
        [text, "-o", "-"],
        ["-o", tmp_path / "out"],
        [text, "-o", tmp_path / "out", "--prefix", text],
    ):
        refused = one_line(heedful("translate", "-m", model, "--resume", *options))
        assert "--resume takes a FILE and an output (-o FILE)" in refused


def test_the_pace_of_long_work_is_a_line_a_minute_with_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    pace, unknown = progress.Pace(1000, "line"), progress.Pace(None, "line")
    pace.skip(400)
    for _ in range(200):
        now += 1.0
        pace.add(2)
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"{400 + 2 * n:,} of 1,000 lines, 2.0 lines/s, {left} left"
        for n, left in ((60, "4 minutes"), (120, "3 minutes"), (180, "2 minutes"))
    ]
    unknown.add(50)
    assert capsys.readouterr().err == "50 lines, 0.2 lines/s\n"
