"""§3.2.2 as an experiment: a head is removed, and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from heedful.data.text_files import SentencePair
from heedful.lab.experiments.head_removal import PRONOUN, heads_of, removals, removed
from heedful.lab.experiments.heads import REMOVAL, losses
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.text import PLAIN, Source, prepare
from heedful.lab.trained import Trained
from heedful.model.attention import MultiHeadAttention
from tests.lab.results import row_result
from tests.small_models import TEXT, small_model


@pytest.fixture
def trained(tmp_path: Path) -> Trained:
    """A small random model as a run, and text with two pronouns."""
    pairs = [SentencePair(TEXT[0], TEXT[1]), SentencePair(TEXT[2], TEXT[3])]
    cases = f"{TEXT[0]}\t{TEXT[1]}\t{TEXT[3]}\n{TEXT[2]}\t{TEXT[3]}\t{TEXT[1]}\n"
    source = Source("any", pairs * 4, pairs, 8, 400, other_files={"pronouns.tsv": cases})
    (tmp_path / "run").mkdir()
    small_model(tmp_path / "run" / "model", num_layers=1)
    return Trained(tmp_path / "run", prepare(PLAIN, source, tmp_path / "texts"), 1, "cpu")


def test_every_head_has_a_name_of_its_own(trained: Trained) -> None:
    (model,) = trained.translator().engine.models
    names = [head.name for head in heads_of(model)]
    assert len(set(names)) == len(names) == 2 * 3
    assert names[0] == "encoder.0.self_attention 1"


def test_a_removed_head_adds_nothing_and_then_is_there_again(trained: Trained) -> None:
    """W_O of the others alone, by hand."""
    (model,) = trained.translator().engine.models
    head = next(heads_of(model))
    attention, before = head.attention, head.attention.W_O.weight.clone()
    assert isinstance(attention, MultiHeadAttention)
    heads_TX = torch.randn(3, attention.W_O.in_features)
    others_TX = heads_TX.clone()
    others_TX[:, : attention.W_O.in_features // 2] = 0
    with removed(head):
        assert torch.equal(attention.W_O(heads_TX), attention.W_O(others_TX))
    assert torch.equal(attention.W_O.weight, before)


def test_every_head_is_removed_once_and_the_model_is_whole_again(trained: Trained) -> None:
    found = removals(trained)
    without = [name for name in found if name.startswith(f"{BLEU} without ")]
    assert len(without) == 6
    assert found[f"mean loss of {BLEU}"] == pytest.approx(found[BLEU] - sum(found[name] for name in without) / 6)
    assert found[PRONOUN] in (0.0, 50.0, 100.0)
    assert removals(trained) == found
    perplexities = {name: value for name, value in found.items() if name.startswith(PERPLEXITY)}
    assert len(set(perplexities.values())) == 1 + 6, "every head matters to a random model"


def test_the_table_has_a_line_for_each_head_of_the_first_seed(trained: Trained) -> None:
    measured = {REMOVAL: removals(trained)}
    results = [row_result(seed=seed, measured=measured) for seed in (3, 4)]
    (section,) = losses({"base": results, "h1": [row_result()]}, trained.run).tables
    assert section.title == "base: each head removed, seed 3"
    assert len(section.rows) == 1 + 6
