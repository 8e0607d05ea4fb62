"""The doctor: what agrees is said to agree, and what does not is found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from heedful.config.optional_packages import install_line, missing
from heedful.errors import DataError
from heedful.inspection import doctor
from heedful.inspection.doctor import TrainingGraph, compare, examine
from heedful.model.checkpoint import LoadedModel, load_model
from heedful.translate.engine import IdPair
from heedful.translate.export.ctranslate2 import write_ctranslate2
from heedful.translate.open_engine import search_engine
from tests.narrowed import as_transformer
from tests.small_models import TEXT, small_model

PAIRS: list[IdPair] = [([5, 6, 7], [8, 9]), ([300, 20], [10, 11, 12, 13]), ([9], [])]


@pytest.fixture(autouse=True)
def no_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds to import; its part is in test_reference.py."""
    monkeypatch.setattr(doctor, "missing", lambda names: names if names == ["transformers"] else missing(names))


@pytest.fixture(autouse=True)
def few_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four show what sixteen show; the command's own test has all of them."""
    monkeypatch.setattr(doctor, "SENTENCES", 4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("doctor") / "model", seed=1, data={"source_language": "xx"})


@pytest.fixture(scope="module")
def graph(model: Path) -> TrainingGraph:
    return TrainingGraph(search_engine(load_model(model, device=torch.device("cpu")).model))


def test_a_sound_model_agrees_in_every_way(model: Path) -> None:
    pytest.importorskip("ctranslate2")
    diagnosis = examine(model)
    assert diagnosis.is_sound, diagnosis.to_text()
    names = [finding.name for finding in diagnosis.findings if finding.largest is not None]
    assert names == ["cached decoding", "batched decoding", "ctranslate2 float32", "ctranslate2 int8"]
    exact = [finding for finding in diagnosis.findings if finding.name != "ctranslate2 int8"]
    assert all(finding.largest < 1e-3 for finding in exact if finding.largest is not None)
    assert f"transformers is not installed; {install_line('transformers')}" in diagnosis.to_text()
    assert "random ones" in diagnosis.sentences


def test_an_export_that_is_wrong_is_found(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")

    def wrong(loaded: LoadedModel, folder: Path, *, quantize: str) -> None:
        other = load_model(model, device=torch.device("cpu"))
        with torch.no_grad():
            as_transformer(other.model).embedding.weight_VD[:, 0] += 0.3
        write_ctranslate2(other, folder, quantize=quantize)

    monkeypatch.setattr(doctor, "write_ctranslate2", wrong)
    diagnosis = examine(model)
    assert not diagnosis.is_sound
    assert diagnosis.to_text().count("DISAGREES") == 2


@pytest.mark.slow
@pytest.mark.parametrize(("added", "agree"), [(0.0, True), (0.01, False), (0.2, False)])
def test_int8_never_agrees_where_float32_does_not(
    model: Path, graph: TrainingGraph, monkeypatch: pytest.MonkeyPatch, added: float, agree: bool
) -> None:
    """A mistake of 0.01 nats a token is within what rounding to int8 may cost; it is a mistake all the same."""

    def fake(loaded: LoadedModel, folder: Path, *, quantize: str) -> Altered:
        return Altered(graph, added=added + (0.05 if quantize == "int8" else 0.0))

    monkeypatch.setattr(doctor, "missing", lambda names: [name for name in names if name != "ctranslate2"])
    monkeypatch.setattr(doctor, "_ctranslate2", fake)
    diagnosis = examine(model)
    found = {finding.name: finding for finding in diagnosis.findings}
    assert found["ctranslate2 float32"].agrees == found["ctranslate2 int8"].agrees == diagnosis.is_sound == agree
    assert ("DISAGREES, as the float32 export does" in found["ctranslate2 int8"].line()) == (not agree)


def test_int8_may_disagree_alone(model: Path, graph: TrainingGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "missing", lambda names: [name for name in names if name != "ctranslate2"])
    monkeypatch.setattr(doctor, "_ctranslate2", lambda *_, quantize: Altered(graph, added=0.2 * (quantize == "int8")))
    text = examine(model).to_text()
    assert text.count("DISAGREES") == 1
    assert "as the float32 export does" not in text


@pytest.mark.slow
def test_what_a_format_cannot_say_is_no_disagreement(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    diagnosis = examine(small_model(tmp_path / "wide", d_k=12))
    assert diagnosis.is_sound
    assert "model.d_k = 12 cannot be exported" in diagnosis.to_text()
    assert "built-in corpus" in diagnosis.sentences


class Altered:
    """The training graph with something added."""

    def __init__(self, graph: TrainingGraph, *, added: float = 0.0, token: int | None = None) -> None:
        self.graph, self.added, self.token = graph, added, token

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        return [[score + self.added for score in scores] for scores in self.graph.score(pairs)]

    def greedy(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> list[list[int]]:
        found = self.graph.greedy(sources, limits)
        return found if self.token is None else [[self.token, *ids[1:]] for ids in found]


def test_scores_and_tokens_are_compared(graph: TrainingGraph) -> None:
    same = compare("same", graph, Altered(graph), PAIRS)
    assert (same.agrees, same.largest, same.equal, same.total) == (True, 0.0, 3, 3)
    assert not compare("other scores", graph, Altered(graph, added=0.01), PAIRS).agrees
    assert compare("int8", graph, Altered(graph, added=0.01), PAIRS, tolerance=None).agrees
    assert not compare("int8", graph, Altered(graph, added=0.2), PAIRS, tolerance=None).agrees
    assert not compare("other tokens", graph, Altered(graph, token=17), PAIRS).agrees


def test_a_tie_is_no_disagreement(graph: TrainingGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Altered(graph, token=17)
    monkeypatch.setattr(TrainingGraph, "score", lambda _, pairs: [[-1.0] * (len(target) + 1) for _, target in pairs])
    found = compare("tie", graph, other, PAIRS)
    assert found.agrees
    assert found.equal < found.total


def test_files_may_be_named(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.xx").write_text("\n".join(TEXT[::2]) + "\n")
    (tmp_path / "a.de").write_text("\n".join(TEXT[1::2]) + "\n")
    diagnosis = examine(model, source=tmp_path / "a.xx", target=tmp_path / "a.de")
    assert diagnosis.sentences.startswith("the first 2 of")
    assert diagnosis.findings[0].total == 2


def test_pairs_without_words_are_passed_over_and_nothing_else_is_refused(model: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "a.xx", tmp_path / "a.de"
    source.write_text("\n" * 20 + "the cat\nthe cat\n")
    target.write_text("\n" * 21 + "die Katze\n")
    assert examine(model, source=source, target=target).findings[0].total == 1
    target.write_text("\n" * 22)
    with pytest.raises(DataError, match="each pair is empty on a side"):
        examine(model, source=source, target=target)


@pytest.mark.parametrize("num_lines", [2, doctor.SENTENCES + 5])
def test_files_of_different_lengths_are_refused_with_both_counts(model: Path, tmp_path: Path, num_lines: int) -> None:
    (tmp_path / "a.xx").write_text("the cat\n" * num_lines)
    (tmp_path / "a.de").write_text("die Katze\n" * (num_lines + 3))
    with pytest.raises(DataError, match=rf"a\.xx has {num_lines} lines but .*a\.de has {num_lines + 3}:"):
        examine(model, source=tmp_path / "a.xx", target=tmp_path / "a.de")


@pytest.mark.slow
@pytest.mark.parametrize(("broken", "code"), [(False, 0), (True, 1)])
def test_the_exit_code_says_whether_all_agree(model: Path, broken: bool, code: int) -> None:
    change = "d.ROUGH = -1.0; " if broken else ""
    program = (
        f"import sys, heedful.inspection.doctor as d; {change}"
        "d.missing = lambda names: [name for name in names if name != 'ctranslate2']; "
        f"from heedful.cli.main import main; sys.argv[1:] = ['doctor', {str(model)!r}]; main()"
    )
    pytest.importorskip("ctranslate2")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ("DISAGREES" in done.stdout) == broken
