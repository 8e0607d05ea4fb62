"""`heedful prepare`: a run's text, encoded before it is trained; in parts, or here."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from heedful.data import text_to_ids
from heedful.data.parts import encoding
from tests.cli.running import Run, one_line

FILES = ("source.ids", "source.lengths", "target.ids", "target.lengths")
SETTINGS = ("--preset", "tiny", "--set", "tokenizer.vocab_size=296", "--set", "tokenizer.dropout=0.1")


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Twenty parts of text, as flags."""
    monkeypatch.setattr(text_to_ids, "_CHUNK_PAIRS", 5)
    monkeypatch.setattr(encoding, "PART_CHUNKS", 2)
    draw = random.Random(1)
    for language, words in (("en", ["the", "cat", "sat"]), ("de", ["die", "Katze", "saß"])):
        lines = [" ".join(draw.choices(words, k=5)) for _ in range(200)]
        (tmp_path / f"train.{language}").write_text("".join(f"{line}\n" for line in lines))
    return ["-s", tmp_path / "train.en", "-t", tmp_path / "train.de", *SETTINGS]


def shards(run: Path) -> list[bytes]:
    return [(run / "data/train" / name).read_bytes() for name in FILES]


def test_a_run_whose_text_was_encoded_in_shares_is_that_of_one_process(
    heedful: Run, text: list[object], tmp_path: Path
) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    assert re.fullmatch("vocabulary: .*\ntraining text: 200 of 200 pairs.*\n", heedful("prepare", *text, "-o", one).err)
    assert "200 pairs in 20 parts; heedful bulk run" in heedful("prepare", *text, "-o", many, "--plan").err
    for share in ("2/3", "0/3"):
        assert heedful("bulk", "run", many / "encoding", "--share", share).code == 0
    assert "finished   13 parts of 20, 130 pairs" in heedful("bulk", "status", many / "encoding").out
    assert "is encoded text; heedful prepare joins it" in one_line(
        heedful("bulk", "join", many / "encoding", "-o", "-")
    )
    assert "training text: 200 of 200 pairs" in heedful("prepare", *text, "-o", many).err
    assert shards(many) == shards(one)
    assert not (many / "encoding").exists()
    trained = heedful("train", *text, "-o", many, "--steps", 1, "--device", "cpu")
    assert trained.code == 0, trained.err
    assert shards(many) == shards(one), "and training takes it as it is"


def test_other_text_than_was_planned_is_refused(heedful: Run, text: list[object], tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert heedful("prepare", *text, "-o", run, "--plan").code == 0
    other = heedful("prepare", *text, "-o", run, "--set", "data.max_length=3")
    assert other.code == 2
    assert "encoding: holds another plan" in other.err
