"""The guide can be followed: its commands run one after another, on a small text and with few steps."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest

from heedful.data.grammar.corpus_files import write_corpus
from tests import ROOT

GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
SHORTER = {
    "recipes/multi30k-en-de.toml --from": "--preset tiny --from",
    "recipes/multi30k-en-de.toml": "--preset tiny --steps 4 --set tokenizer.vocab_size=400",
    "runs/bag --preset tiny": "runs/bag --preset tiny --steps 2 --set tokenizer.vocab_size=400",
    "--steps 5230": "--steps 4",
    "--steps 500": "--steps 2",
    "--set train.warmup_steps=100": "--set train.warmup_steps=1",
    "--set train.checkpoint_steps=100": "--set train.checkpoint_steps=1",
    "--set train.validate_steps=100": "--set train.validate_steps=2",
}


def commands() -> str:
    """What the guide lets one type, but for what installs and what does not end."""
    typed = "".join(re.findall(r"```sh\n(.*?)```", GUIDE, flags=re.DOTALL))
    for long, short in SHORTER.items():
        assert long in typed
        typed = typed.replace(long, short)
    return re.sub(r"^(pip install|heedful serve) .*\n", "", typed, flags=re.MULTILINE)


def write_texts(folder: Path) -> None:
    write_corpus(folder, "en", "de", train_pairs=1500)
    for language in ("en", "de"):
        for ours, theirs in {"train": "all", "valid": "own", "test": "own-valid"}.items():
            (folder / f"{ours}.{language}").rename(folder / f"{theirs}.{language}")


@pytest.mark.slow
def test_the_commands_of_the_guide_run_one_after_another(tmp_path: Path) -> None:
    write_texts(tmp_path)
    copy(ROOT / "tests" / "toy_family.py", tmp_path / "my_model.py")
    script = f'set -e\nheedful() {{ "{sys.executable}" -m heedful "$@"; }}\n{commands()}'
    surroundings = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    count = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in tmp_path.glob("*.en")}
    assert (count["train.en"], count["valid.en"], count["test.en"]) == (1494, 3, 3)
    assert "BLEU" in done.stdout
    assert (tmp_path / "runs" / "own" / "model" / "model.safetensors").exists()
    assert len((tmp_path / "test.out.de").read_text(encoding="utf-8").splitlines()) == 3
