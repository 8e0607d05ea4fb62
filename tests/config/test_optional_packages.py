"""Install lines in documents and messages can work: heedful is on no index, and what they name exists."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import metadata, requires
from pathlib import Path

import pytest

from heedful.config import optional_packages
from heedful.config.optional_packages import install_line
from heedful.config.settings import ModelConfig
from heedful.errors import DeviceError
from heedful.inspection import drawing
from heedful.model.device import lack_of_kernels
from heedful.score.scores import choose_tokenizer
from tests import ROOT
from tests.inspection.test_drawing import shown

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = PROJECT["optional-dependencies"]
PINS = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.md")])
SOURCES = sorted(
    path
    for folder in ("heedful", "benchmarks", "recipes")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".js", ".html", ".toml")
)


def install_lines(path: Path) -> list[str]:
    """What follows `pip install` in a file: in code blocks, between backticks, in strings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        parts = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
        lines = [line for part in parts for line in part.splitlines()]
        lines += re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    else:
        lines = re.findall(r'[^"`\n]+', text)
    return [" ".join(line.split("install ", 1)[1].split()) for line in lines if re.search(r"\bpip3? install ", line)]


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}  # type: ignore[index]


PACKAGES = names(PROJECT["dependencies"]) | {name for each in OPTIONAL.values() for name in names(each)} | set(PINS)


def check(word: str) -> None:
    """One requirement of an install line: a clone, a wheel, or a package that we know."""
    name, _, inner = word.rstrip("]").partition("[")
    options = set(filter(None, inner.split(",")))
    if name in (".", f"dist/heedful-{PROJECT['version']}-py3-none-any.whl"):
        assert options <= set(OPTIONAL), word
        return
    package, _, version = name.partition("==")
    assert package in PACKAGES, f"{word}: neither a path nor a package of pyproject.toml"
    assert not version or version == PINS[package], word
    assert not options or options <= set(metadata(package).get_all("Provides-Extra") or []), word


@pytest.mark.parametrize("path", DOCUMENTS + SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_installs_heedful_by_its_name(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"(?<![\w/-])heedful\[[a-z]", text)
    assert not re.findall(
        r"\b(?:pipx?|pip3|uv|conda|tool)\s+(?:install|add)\s[^`\n]*(?<![\w/.-])heedful(?![\w/-])", text
    )


@pytest.mark.parametrize("path", DOCUMENTS + SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_install_line_names_what_exists(path: Path) -> None:
    for line in install_lines(path):
        words = shlex.split(line, comments=True)
        assert words, f"{line!r}: installs nothing"
        for option, word in zip(["", *words], words, strict=False):
            if option == "-c":
                assert (ROOT / word).is_file()
            elif not word.startswith(("-", "{")):
                check(word)


@pytest.mark.parametrize("name", ["README.md", "README.ko.md"])
def test_the_readme_installs_from_a_clone_and_from_a_wheel(name: str) -> None:
    lines = install_lines(ROOT / name)
    assert [line for line in lines if re.search(r"-c constraints.txt '?\.", line)]
    assert [line for line in lines if ".whl" in line]


def test_what_an_error_installs_is_what_the_extra_holds() -> None:
    assert set(optional_packages.SERVER) == names(OPTIONAL["serve"])
    calls = [
        node
        for path in SOURCES
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("install_line")
    ]
    told = {argument.value for call in calls for argument in call.args if isinstance(argument, ast.Constant)}
    assert {"ctranslate2", "matplotlib", "triton"} <= told
    assert told <= PACKAGES


@pytest.mark.parametrize(("language", "extra"), [("ko", "ko"), ("ja", "ja")])
def test_a_report_names_what_its_tokenizer_lacks(language: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as nothing:
        nothing.setattr(optional_packages, "find_spec", lambda _: None)
        (line,) = re.findall("pip install (.*)", choose_tokenizer(language).reason)
    wanted = [each for each in requires("sacrebleu") or [] if re.search(f"extra == ['\"]{extra}['\"]", each)]
    found = shlex.split(line)
    assert found == [f"sacrebleu[{extra}]"] or set(found) == names(wanted)
    for word in found:
        check(word)


def test_an_install_line_is_for_the_python_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [*shlex.split(install_line("click")), "--no-index", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "already satisfied: click" in done.stdout
    monkeypatch.setattr(sys, "executable", "/home/a b/python")
    assert install_line("starlette", "uvicorn") == "'/home/a b/python' -m pip install starlette uvicorn"


def test_what_is_missing_is_told_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(DeviceError, match=r"needs matplotlib \(\.svg and \.html need nothing\); .* -m pip install mat"):
        drawing.png(shown())
    monkeypatch.setattr("heedful.model.device.find_spec", lambda name: None)
    import torch

    assert lack_of_kernels(torch.device("cuda"), ModelConfig()) == f"Triton ({install_line('triton')})"
