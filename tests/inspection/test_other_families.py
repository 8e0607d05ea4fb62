"""What can be looked into of families that are no Transformer: the attention that they have, and nothing invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from heedful.errors import ConfigError, DataError
from heedful.inspection.attention_map import attention_map, layers_and_heads, the_model
from heedful.inspection.drawing import attention_view
from heedful.inspection.head_roles import grammar_roles, head_roles
from heedful.inspection.trace import look, model_facts, trace
from heedful.inspection.vectors import worked_kinds
from heedful.translate.translation import Translator
from tests.baselines.test_families import SMALL as SMALL_FAMILIES
from tests.cli.running import Run, one_line
from tests.small_translator import TEXT, family_translator, save_translator, small_translator

pytestmark = pytest.mark.usefixtures("families_of_others")
MIXER = {"family": "mixer", "num_layers": 2, "num_heads": 2, "d_ff": 24, "token_width": 12}


@pytest.fixture
def glance() -> Translator:
    return family_translator({"family": "glance"})


@pytest.fixture
def mixer() -> Translator:
    return family_translator(MIXER)


@pytest.fixture
def bag() -> Translator:
    return family_translator({"family": "bag"})


def test_a_family_shows_the_kinds_of_attention_that_it_records(
    glance: Translator, mixer: Translator, bag: Translator
) -> None:
    assert layers_and_heads(the_model(glance)) == {"cross": (1, 1)}
    assert layers_and_heads(the_model(mixer)) == {"cross": (2, 2), "decoder": (2, 2)}
    assert layers_and_heads(the_model(bag)) == {}


@pytest.mark.parametrize("name", SMALL_FAMILIES)
def test_every_family_of_ours_can_be_traced_and_what_it_records_is_drawn(name: str) -> None:
    settings = {"family": name.split()[0], **SMALL_FAMILIES[name]}
    translator = family_translator(settings, max_length=30)
    found = trace(translator, "The cat sat.", layers=None)
    assert json.loads(json.dumps(found, allow_nan=False))["beam"]["steps"]
    kinds = layers_and_heads(the_model(translator))
    assert set(found["attention"]) == set(found["heads"]) == set(kinds)
    assert set(found["worked"]) <= set(kinds)
    for kind in kinds:
        shown = attention_view(look(translator, "The cat sat."), kind)
        assert sum(share or 0.0 for share in shown.shares[-1]) == pytest.approx(1.0)


def test_weights_are_what_the_model_computed_whatever_else_it_records(glance: Translator) -> None:
    found = attention_map(glance, TEXT[0], TEXT[1])
    weights_LHTS = found.weights_LHTS["cross"]
    assert weights_LHTS.shape == (1, 1, len(found.target.pieces), len(found.source.pieces))
    torch.testing.assert_close(weights_LHTS.sum(dim=-1), torch.ones(weights_LHTS.shape[:-1]))
    assert weights_LHTS.std() > 0
    assert attention_view(found, "cross").columns == found.source.words


def test_a_kind_that_a_family_lacks_is_refused_with_the_kinds_that_it_has(
    glance: Translator, mixer: Translator
) -> None:
    with pytest.raises(ConfigError, match=r"kind 'encoder' .* 'glance' has no such attention; choose cross$"):
        attention_view(attention_map(glance, TEXT[0], TEXT[1]), "encoder")
    with pytest.raises(ConfigError, match=r"kind 'encoder' .* 'mixer' .*; choose cross or decoder$"):
        attention_view(attention_map(mixer, TEXT[0], TEXT[1]), "encoder")


def test_a_family_without_attention_cannot_be_looked_into_and_its_search_can(bag: Translator) -> None:
    for refused in (attention_map, look):
        with pytest.raises(ConfigError, match=r"model.family = 'bag' cannot be looked into: this model has no att"):
            refused(bag, TEXT[0], TEXT[1])
    found = trace(bag, TEXT[0])
    assert json.loads(json.dumps(found, allow_nan=False))["attention"] == found["heads"] == {}
    assert found["beam"]["steps"]
    assert found["hypotheses"][0]["tokens"][0]["top"]
    assert found["hypotheses"][1]["attention"] == {}
    with pytest.raises(DataError, match="layers = 0 is no layer of this model; it has no attention"):
        trace(bag, TEXT[0], layers=[0])


def test_only_what_equation_1_gives_from_recorded_vectors_is_worked_through(
    glance: Translator, mixer: Translator
) -> None:
    assert trace(glance, TEXT[0])["worked"] == ()
    assert trace(glance, TEXT[0])["vectors"] == {"kinds": {}, "states": {}}
    found = trace(mixer, TEXT[0])
    assert set(found["worked"]) == set(found["vectors"]["kinds"]) == {"cross", "decoder"}
    assert set(found["vectors"]["states"]) == {"decoder"}
    transformer = attention_map(small_translator(), TEXT[0], TEXT[1])
    assert set(worked_kinds(transformer)) == {"cross", "encoder", "decoder"}
    for recorder in transformer.reading.recorders["cross"]:
        recorder.queries[0] *= 2.0  # as a model would compute that does not divide by √d_k
    assert set(worked_kinds(transformer)) == {"encoder", "decoder"}


def test_heads_get_their_names_from_weights_alone(glance: Translator, bag: Translator) -> None:
    found = head_roles(glance, attention_map(glance, TEXT[0], TEXT[1]))
    assert set(found) == {"cross"}
    assert set(found["cross"].shares_LH) == {"end"}
    known = grammar_roles(family_translator({"family": "glance"}, "en", "de"), num_sentences=3)
    assert "aligned" in known["cross"].shares_LH
    assert grammar_roles(family_translator({"family": "bag"}, "en", "de")) == {}


def test_its_sizes_are_its_own_settings(glance: Translator, mixer: Translator) -> None:
    facts = model_facts(glance)
    assert (facts["family"], facts["d_model"], facts["sharpness"]) == ("glance", 16, 2.0)
    assert not {"num_heads", "encoder_layers", "d_k", "positions"} & set(facts)
    facts = model_facts(mixer)
    assert (facts["family"], facts["num_encoder_layers"], facts["d_k"], facts["token_width"]) == ("mixer", 2, 8, 12)
    assert "family" not in model_facts(small_translator())


SMALL = {"num_layers": 1, "num_heads": 2, "d_ff": 24}
SWITCHES = [{"compatibility": "unscaled"}, {"compatibility": "additive"}, {"positions": "rotary"}, {"residuals": False}]


@pytest.mark.parametrize("switch", SWITCHES, ids=str)
def test_a_transformer_that_computes_otherwise_is_drawn_with_its_departure_and_without_the_calculation(
    switch: dict[str, Any],
) -> None:
    found = trace(family_translator(SMALL | switch), TEXT[0])
    assert set(found["attention"]) == {"cross", "encoder", "decoder"}
    assert found["worked"] == ()
    assert switch.items() <= found["model"].items()


def test_the_papers_transformer_has_no_departures() -> None:
    assert not {"compatibility", "max_positions", "num_layers"} & set(model_facts(small_translator()))


# --------------------------------------------------------------------------------------------------------- the command


def attend(model: Path, output: Path, *options: str) -> list[object]:
    return ["attend", "-m", model, TEXT[0], "-o", output, "--device", "cpu", *options]


@pytest.mark.parametrize("settings", [{"family": "glance"}, MIXER], ids=["glance", "mixer"])
def test_attend_draws_what_there_is(heedful: Run, settings: dict[str, Any], tmp_path: Path) -> None:
    translator = family_translator(settings)
    model = save_translator(translator, tmp_path / "model")
    for name in ("it.svg", "it.html", "it.json"):
        assert heedful(*attend(model, tmp_path / name)) == (0, "", f"{tmp_path / name} is written\n")
    assert "cross-attention, layer" in (tmp_path / "it.svg").read_text(encoding="utf-8")
    drawn = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))["attention"]
    assert set(drawn) == set(layers_and_heads(the_model(translator)))
    for name in ("it.svg", "it.html"):
        said = one_line(heedful(*attend(model, tmp_path / name, "--kind", "encoder")))
        assert f"kind 'encoder' is not there: model.family = '{settings['family']}' has no such" in said
    assert "layer 3 is not there" in one_line(heedful(*attend(model, tmp_path / "it.html", "--layer", "3")))


def test_attend_refuses_a_family_without_attention_in_one_line(heedful: Run, bag: Translator, tmp_path: Path) -> None:
    model = save_translator(bag, tmp_path / "model")
    for name in ("it.svg", "it.html", "it.json"):
        said = one_line(heedful(*attend(model, tmp_path / name)))
        assert "model.family = 'bag' cannot be looked into: this model has no attention" in said
        assert not (tmp_path / name).exists()
