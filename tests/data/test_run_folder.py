"""A run's folder: the lock, settings that are written whole, and metrics that are cut back."""

import errno
import fcntl
import json
import math
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from heedful.config.setting_layers import resolve
from heedful.data.atomic import unfinished
from heedful.data.run_folder import locked, tidy_run, write_config
from heedful.data.run_metrics import append_metrics, cut_metrics
from heedful.errors import CheckpointError, DataError

LOCKING = "import sys, time; from pathlib import Path; from heedful.data.run_folder import locked\n"


def test_settings_are_on_the_disk_before_they_take_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _: there.append((tmp_path / "config.toml").exists()))
    write_config(tmp_path, resolve())
    assert there == [False], "after a power cut a name without its text would be a run without settings"
    assert (tmp_path / "config.toml").exists()


def test_metrics_are_json_whatever_the_numbers_are(tmp_path: Path) -> None:
    append_metrics(tmp_path, {"step": 3, "loss": 800.0, "perplexity": math.inf, "gradient_norm": math.nan})
    line = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(line, parse_constant=lambda name: pytest.fail(name)) == {
        "step": 3,
        "loss": 800.0,
        "perplexity": None,
        "gradient_norm": None,
    }


def test_a_second_start_is_refused_while_the_first_holds_the_folder(tmp_path: Path) -> None:
    with locked(tmp_path):
        code = LOCKING + f"with locked(Path({str(tmp_path)!r})): pass"
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert "another process is using this run" in second.stderr
    with locked(tmp_path):
        pass  # it is free again


def test_a_killed_process_lets_go_of_the_folder(tmp_path: Path) -> None:
    code = LOCKING + f"with locked(Path({str(tmp_path)!r})):\n print('held', flush=True)\n time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.kill()
    with locked(tmp_path):
        assert (tmp_path / ".lock").exists()


def test_a_start_tidies_up_after_older_versions(tmp_path: Path) -> None:
    left = [".model.writing", "checkpoints/.step-00000006.writing", "data/.train.partial", ".config.toml.123.writing"]
    for name in left:
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data" / ".valid.old").mkdir()
    (tmp_path / "notes.partial").touch()
    tidy_run(tmp_path)
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert found == {"checkpoints", "data", "data/valid", "notes.partial"}


def refused(run: Path, *made: str) -> None:
    """A start that writes its settings, makes these files, and then finds fault with the text."""
    with locked(run):
        write_config(run, resolve())
        for name in made:
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).touch()
        raise DataError("the text is bad")


def test_a_folder_that_was_made_for_a_refused_start_goes_with_it(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        refused(tmp_path / "runs" / "mine")
    assert list(tmp_path.iterdir()) == []


def test_a_refused_start_leaves_a_folder_that_was_there_before(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with pytest.raises(DataError):
        refused(tmp_path / "runs" / "mine")
    assert list((tmp_path / "runs").iterdir()) == []
    with pytest.raises(DataError):
        refused(tmp_path / "runs")
    assert (tmp_path / "runs" / "config.toml").exists()


@pytest.mark.parametrize("made", ["tokenizer.model", "data/train/source.ids", "notes.txt"])
def test_a_start_that_fails_after_it_made_something_leaves_all(tmp_path: Path, made: str) -> None:
    with pytest.raises(DataError):
        refused(tmp_path / "run", made)
    assert (tmp_path / "run" / made).exists()
    assert (tmp_path / "run" / "config.toml").exists()
    with locked(tmp_path / "run"):
        pass  # it is known as ours


def test_a_start_that_stood_at_the_lock_of_a_folder_that_goes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has opened the lock's file when the first start ends, and would hold a file that has no name."""
    first, flock = ExitStack(), fcntl.flock
    first.enter_context(locked(tmp_path / "run"))

    def late(descriptor: int, operation: int) -> None:
        first.close()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(CheckpointError, match="another process is using this run"), locked(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()


def test_a_start_that_comes_while_a_folder_goes_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first start has taken its files away, and is about to remove the folder."""
    run, second, rmdir = tmp_path / "run", ExitStack(), Path.rmdir

    def late(folder: Path) -> None:
        monkeypatch.undo()
        second.enter_context(locked(run))
        rmdir(folder)

    monkeypatch.setattr(Path, "rmdir", late)
    with pytest.raises(DataError):
        refused(run)
    assert Path.rmdir is rmdir, "the second start came"
    with second:
        write_config(run, resolve())


@pytest.mark.parametrize("name", ["thesis.txt", "config.toml"])
def test_a_folder_with_other_things_in_it_is_not_taken(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(CheckpointError, match="is not a heedful run"), locked(tmp_path):
        pass
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_a_run_cannot_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(CheckpointError, match="is a file, and a run is a folder"), locked(tmp_path / "run"):
        pass


def test_metrics_are_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        append_metrics(tmp_path, {"step": step})
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 4')  # the machine died here
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(b"\n\xff\xfe and its disk, too\n")
    cut_metrics(tmp_path, 20)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [10, 20]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl: cannot be written \(No space left on device\)"):
        append_metrics(tmp_path, {"step": 10})
    unfinished(tmp_path / "config.toml").symlink_to("/dev/full")
    with pytest.raises(CheckpointError, match=r"config\.toml: cannot be written \(No space left on device\)"):
        write_config(tmp_path, resolve())


def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(CheckpointError, match=r"\.lock: cannot be written"), locked(tmp_path):
        pass


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_a_disk_without_locks_is_not_taken_for_another_process(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    reason = rf"\.lock: cannot be written \(it cannot be locked: {os.strerror(code)}\)"
    with pytest.raises(CheckpointError, match=reason), locked(tmp_path):
        pass
