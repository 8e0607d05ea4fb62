"""A run's folder: which settings may change between two starts, the lock, and metrics that are cut back."""

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

from heedful.config.settings import resolve, setting
from heedful.data.atomic import unfinished
from heedful.data.run_folder import append_metrics, cut_metrics, locked, make_plan, tidy_run, write_config
from heedful.errors import CheckpointError, ConfigError, DataError

LOCKING = "import sys, time; from pathlib import Path; from heedful.data.run_folder import locked\n"


def begin(run: Path, *settings: str) -> None:
    """A run whose text is encoded."""
    write_config(run, resolve(*map(setting, settings)))
    (run / "data" / "train").mkdir(parents=True)


def test_settings_are_free_until_something_was_made_by_them(tmp_path: Path) -> None:
    write_config(tmp_path, resolve(setting("tokenizer.vocab_size=800")))
    assert make_plan(tmp_path, preset_name=None, layers=[]).config.tokenizer.vocab_size == 37_000
    begin(tmp_path, "tokenizer.vocab_size=800")
    assert make_plan(tmp_path, preset_name=None, layers=[]).config.tokenizer.vocab_size == 800


def test_a_new_run_takes_preset_and_layers(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, preset_name="tiny", layers=[setting("train.steps=7")])
    assert (plan.config.train.steps, plan.config.model.d_model) == (7, 128)
    assert plan.named == {"train.steps"}
    assert plan.changed == {}


def test_without_a_preset_a_new_run_is_base_and_an_old_one_stays_what_it_is(tmp_path: Path) -> None:
    assert make_plan(tmp_path, preset_name=None, layers=[]).config.model.d_model == 512
    begin(tmp_path, "model.d_model=64")
    assert make_plan(tmp_path, preset_name=None, layers=[]).config.model.d_model == 64


def test_base_named_for_a_run_of_another_size_is_refused(tmp_path: Path) -> None:
    begin(tmp_path, "model.d_model=64")
    with pytest.raises(
        ConfigError, match=r"model\.d_model = 512 \(preset base\), but the run .* has 64; .* leave --preset out"
    ):
        make_plan(tmp_path, preset_name="base", layers=[])


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


@pytest.mark.parametrize("text", ["train.steps=9", "train.cooldown_steps=4", "train.patience=2", "decode.alpha=1.0"])
def test_steps_patience_and_checkpoints_may_change_and_are_named(tmp_path: Path, text: str) -> None:
    begin(tmp_path)
    plan = make_plan(tmp_path, preset_name=None, layers=[setting(text)])
    assert list(plan.changed) == [text.split("=")[0]]


def test_text_is_the_same_however_its_place_is_spelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    begin(tmp_path, 'data.source=["a.en"]')
    for name in ("a.en", "./a.en", str(tmp_path / "a.en")):
        plan = make_plan(tmp_path, preset_name=None, layers=[{"data": {"source": [name]}}])
        assert plan.changed == {}
        assert plan.config.data.source == (str(tmp_path / "a.en"),)


def test_a_language_may_be_named_once(tmp_path: Path) -> None:
    begin(tmp_path)
    plan = make_plan(tmp_path, preset_name=None, layers=[setting("data.source_language=en")])
    assert plan.changed == {"data.source_language": ("", "en")}
    write_config(tmp_path, plan.config)
    with pytest.raises(ConfigError, match=r"data\.source_language = 'fr', but the run"):
        make_plan(tmp_path, preset_name=None, layers=[setting("data.source_language=fr")])


@pytest.mark.parametrize(
    "text", ["model.d_ff=64", "tokenizer.vocab_size=800", "train.batch_tokens=999", "train.seed=5", "data.max_length=9"]
)
def test_what_shapes_model_or_data_may_not_change(tmp_path: Path, text: str) -> None:
    begin(tmp_path)
    name = text.split("=")[0]
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")) as caught:
        make_plan(tmp_path, preset_name=None, layers=[setting(text)])
    assert "\n" not in str(caught.value)


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
    with pytest.raises(CheckpointError, match="no run of ours"), locked(tmp_path):
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
