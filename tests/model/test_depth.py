"""Depth-scaled initial weights, `train.depth_scaled_init`: what they are, and what they are good for."""

from __future__ import annotations

import re

import numpy as np
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from heedful.config.settings import ModelConfig
from heedful.model.packed import pack_source
from heedful.model.transformer import Transformer

DEEP = ModelConfig(d_model=32, d_ff=64, num_encoder_layers=12, num_decoder_layers=3, num_heads=2, dropout=0.0)


def deep_model(*, scaled: bool) -> Transformer:
    torch.manual_seed(5)
    model = Transformer(DEEP, 50)
    if scaled:
        model.scale_by_depth()
    return model.double()


def likeness_of_words(model: Transformer) -> float:
    """The mean cosine between two words of a sentence at the encoder's output."""
    sentence = pack_source(np.random.default_rng(5).integers(0, 50, 20), np.array([20]))
    row_TD = F.normalize(model.encode(sentence).hidden_SD, dim=-1)
    return ((row_TD @ row_TD.mT).sum().item() - 20) / (20 * 19)


def test_the_linears_of_layer_l_are_divided_by_the_root_of_l_and_nothing_else_changes() -> None:
    plain, scaled = deep_model(scaled=False).state_dict(), deep_model(scaled=True).state_dict()
    for name, weight in plain.items():
        layer = re.match(r"(?:encoder|decoder)\.(\d+)\..*\.W_\w+\.weight", name)
        depth = int(layer[1]) + 1 if layer else 1
        assert_close(scaled[name], weight / depth**0.5, rtol=1e-6, atol=0, msg=name)


def test_the_words_of_a_sentence_stay_apart_in_a_deep_encoder() -> None:
    """Attention with random weights is a mean over all words: after 12 layers of it nothing tells them apart, and a
    decoder learns to do without them."""
    assert likeness_of_words(deep_model(scaled=False)) > 0.98
    assert likeness_of_words(deep_model(scaled=True)) < 0.8
