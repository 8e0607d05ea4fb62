"""README and docs stay true: the example runs, every file is on the map, and what the docs name exists."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import heedful
from benchmarks import packages as drawing_of_packages
from heedful.cli.main import commands
from heedful.config.setting_layers import preset, resolve
from heedful.data import tokenizer
from heedful.model.dropout import CHANCES
from tests import ROOT
from tests.test_architecture import packages

READMES = ["README.md", "README.ko.md"]
DOCS = sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


@pytest.mark.parametrize("name", [*READMES, *DOCS])
def test_every_row_of_a_table_has_the_cells_of_its_head(name: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        head, *rows = table.splitlines()
        assert [row for row in rows if cells(row) != cells(head)] == []


@pytest.mark.slow
def test_the_python_examples_run(tmp_path: Path) -> None:
    from heedful.data.grammar.corpus_files import write_corpus

    write_corpus(tmp_path, "en", "de", train_pairs=2000)
    (example,) = blocks("docs/guide.md", "python")
    quick = example.replace('"train.steps": 600', '"train.steps": 2')
    assert quick != example, "the example trains 600 steps"
    (notebook,) = blocks("docs/attention.md", "python")
    quick += notebook + 'print(heedful.attention_view(found, "cross")._repr_svg_())'
    done = subprocess.run(
        [sys.executable, "-c", quick],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "nrefs:1" in done.stdout
    assert done.stdout.rstrip().endswith("</svg>")


@pytest.mark.parametrize("name", [*READMES, "docs/guide.md", "docs/evaluation.md"])
def test_the_example_commands_are_commands_with_options_that_exist(name: str) -> None:
    examples = [line for block in blocks(name, "sh") for line in block.replace("\\\n", " ").splitlines()]
    ours = [line.split("|")[-1].split(">")[0].strip() for line in examples if "heedful " in line and line[:1] != "#"]
    assert len(ours) >= 5
    for line in ours:
        words = shlex.split(line.removeprefix("pip install"), comments=True)
        command = commands.commands[words[1]]
        known = {option for parameter in command.params for option in parameter.opts} | {"-h"}
        used = {word for word in words[2:] if re.match(r"--?[a-z]", word)}
        assert used <= known, f"{line}: {used - known}"


@pytest.mark.parametrize("name", READMES)
def test_the_readme_is_a_page_and_a_half(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 125
    assert len(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split()) < 1000


@pytest.mark.parametrize("name", READMES)
def test_the_map_has_a_row_for_each_package_in_the_order_of_their_imports(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert re.findall(r"^\| `heedful/(\w+)/` \|", text, flags=re.MULTILINE) == packages()


@pytest.mark.parametrize("name", [*READMES, "CONTRIBUTING.md", *DOCS])
def test_links_between_documents_lead_somewhere(name: str) -> None:
    """To a file that exists; behind a # to one of its headings."""
    path = ROOT / name
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", path.read_text(encoding="utf-8"))
    targets = [((path.parent / file).resolve() if file else path, anchor) for file, anchor in links]
    assert not [file for file, _ in targets if not file.exists()]
    assert not [anchor for file, anchor in targets if anchor and anchor not in anchors(file)]


def anchors(document: Path) -> set[str]:
    """What GitHub calls the headings of a document: small letters, a hyphen for each space, no other marks."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", [*READMES, "CONTRIBUTING.md", *DOCS])
def test_every_file_of_ours_that_a_page_names_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    files = re.findall(r"`((?:heedful|tests|benchmarks|recipes)/[\w/.-]+\.\w+)`", text)
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_papers_map_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    tests = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", text)
    assert len(tests) > 25
    for file, test in tests:
        (path,) = (ROOT / "tests").rglob(file)
        assert f"def {test}(" in path.read_text(encoding="utf-8"), f"{file}::{test}"


def test_the_drawing_of_the_packages_is_that_of_today() -> None:
    assert drawing_of_packages.DRAWING.read_text(encoding="utf-8") == drawing_of_packages.drawing()


def test_the_departures_say_what_the_vocabulary_is_learned_from() -> None:
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    rows = {row.split(" |")[0]: row for row in re.findall(r"^\| (.*)", text, flags=re.MULTILINE)}
    assert f"of more than {tokenizer._SAMPLED_LINES:,} from a random sample" in rows["vocabulary"]
    assert "from the text before cleaning" in rows["cleaning, `data.max_length_ratio`, `data.drop_copies`"]


@pytest.mark.parametrize("name", [*READMES, "docs/paper.md"])
def test_each_default_that_approximates_the_paper_is_named_with_what_switches_it_off(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for default, switch in {"CUDA": "--precision fp32", "int8": "--engine torch"}.items():
        assert [line for line in text.splitlines() if default in line], default
        option, value = switch.split()
        options = {opt: each for each in commands.commands["translate"].params for opt in each.opts}
        assert value in getattr(options[option].type, "choices", ())
        assert f"`{switch}`" in text
    dropped = round(0.1 * CHANCES) / CHANCES
    assert f"{dropped:.6f}" in text
    assert "Exactly the paper" not in text


def test_the_time_of_the_demo_stands_in_the_results_alone() -> None:
    """It is another on each machine; a second figure in the guide would contradict the table."""
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if "`make demo`" in line]
    told = row[row.index("`make demo`") :].split(". ")[0]
    assert "](results.md)" in told
    assert not re.search(r"\d", told)


@pytest.mark.parametrize("name", ["README.ko.md", "heedful/inspection/page/i18n.js"])
def test_korean_calls_things_what_korean_engineers_call_them(name: str) -> None:
    """And one thing by one name, in the README and on the page."""
    text = (ROOT / name).read_text(encoding="utf-8")
    odd = [
        "위치 부호화",
        "시험 집합",
        "시험 글",
        "학습 글",
        "후치 정규화",
        "나무로",
        "글에서 글로",
        "탐욕",
        "목표 토큰",
    ]
    odd += ["길이 벌점", "낱말", "서명"]
    assert [word for word in odd if word in text] == []
    assert "위치 인코딩" in text


def test_table_3_is_said_to_need_a_model_that_is_not_averaged() -> None:
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    section = text[text.index("## The rows of table 3 as settings") :].split("\n## ")[0]
    assert "`train.average_last=1`" in section
    assert resolve(preset("big"), {"train": {"average_last": 1}}).train.average_last == 1


def test_the_evenings_reading_is_as_short_as_it_says() -> None:
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    section = text[text.index("## An evening's reading") :].split("\n## ")[0]
    files = re.findall(r"`(heedful/[\w/]+\.py)`", section)
    lines = sum(len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in files)
    assert "some 2,300 lines" in section
    assert 2200 < lines < 2400
    for name in READMES:
        assert re.search(rf" {len(files)}\D.*2,300.*docs/paper\.md#an-evenings-reading", readme_line(name)), name


def speed_rows() -> list[str]:
    """The last cell of each row of the table of speeds."""
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    return re.findall(r"^\| .+ \| .+ \| (?:one H200|2 CPU cores) \| (.+) \|$", text, flags=re.MULTILINE)


def test_every_speed_links_to_results_that_have_it_and_name_commit_date_and_machine() -> None:
    """Every number of a row stands in a result that the row links to, which may have more digits."""
    rows = speed_rows()
    assert len(rows) > 5
    for row in rows:
        links = re.findall(r"\]\(\.\./(benchmarks/results/.+?\.json)\)", row)
        assert links, row
        texts = [(ROOT / link).read_text(encoding="utf-8") for link in links]
        for result in map(json.loads, texts):
            assert all(result[key] for key in ("date", "commit", "machine")), links
        kept = [float(number) for number in numbers("\n".join(texts))]
        told = numbers(re.sub(r"\[.+?\]\(.+?\)", "", row))
        assert [number for number in told if not stands_in(number, kept)] == []


def numbers(text: str) -> list[str]:
    """The numbers of a text, without the commas between thousands; a digit of a name, as in bf16, is none."""
    found = re.findall(r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?![\d-])", text)
    return [number.replace(",", "") for number in found]


def stands_in(number: str, kept: list[float]) -> bool:
    """Whether the number is one of those, rounded."""
    digits = len(number.partition(".")[2])
    return any(abs(float(number) - other) <= 0.500001 * 10**-digits for other in kept)


def readme_line(name: str) -> str:
    text = (ROOT / name).read_text(encoding="utf-8")
    return next(line for line in text.splitlines() if "an-evenings-reading" in line)


def test_every_make_target_that_a_page_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in [*READMES, "CONTRIBUTING.md", *DOCS]}
    named = {name: set(re.findall(r"(?:^|`)make (\w+)", text, flags=re.MULTILINE)) for name, text in pages.items()}
    assert all(named[name] >= {"demo", "test"} for name in READMES)
    assert named["CONTRIBUTING.md"] >= {"test", "quick", "walk"}
    assert set().union(*named.values()) <= set(re.findall(r"^(\w+):", makefile, flags=re.MULTILINE))


@pytest.mark.slow
def test_without_a_browser_the_tests_say_that_the_page_was_not_tested() -> None:
    surroundings = {"PYTHONPATH": str(ROOT), "PATH": "/nowhere"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/serve/test_page.py"]
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    assert "NO BROWSER: the page is NOT TESTED; apt-get install chromium\n" in done.stdout


def test_the_list_of_public_names_is_true() -> None:
    for name in heedful.__all__:
        assert getattr(heedful, name) is not None
    assert dir(heedful) == sorted(heedful.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        heedful.nonsense  # noqa: B018


def test_the_help_and_the_docs_count_the_same_apis() -> None:
    texts = (str(commands.commands["serve"].short_help), (ROOT / "docs" / "serving.md").read_text(encoding="utf-8"))
    assert [re.findall(r"(\w+) APIs", text) for text in texts] == [["three"], ["three"]]


def test_every_command_says_what_it_does() -> None:
    for name, command in commands.commands.items():
        assert command.help, name
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.name not in ("device", "engine", "form", "seed"):
                assert parameter.help, f"{name} {parameter.opts}"
