"""Translators small enough to look into within a test: with random weights, and with one sentence pair learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from heedful.config.setting_layers import resolve
from heedful.data.tokenizer import Tokenizer
from heedful.model.checkpoint import save_model
from heedful.model.packed import pack_source, pack_target, shift_right
from heedful.model.registry import new_model
from heedful.translate.open_engine import search_engine
from heedful.translate.translation import Translator

TEXT = [
    "The animal didn't cross the road because it was too tired.",
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "그 동물은 너무 피곤해서 길을 건너지 않았다.",
]


def small_translator(
    source: str = "xx",
    target: str = "yy",
    num_layers: int = 2,
    texts: Sequence[str] = TEXT,
    *,
    num_encoder_layers: int | None = None,
    d_k: int = 8,
) -> Translator:
    """Two layers, two heads; languages that the grammar does not know, unless told."""
    encoder = {} if num_encoder_layers is None else {"num_encoder_layers": num_encoder_layers}
    sizes = {"d_ff": 24, "num_layers": num_layers, "num_heads": 2, "d_k": d_k}
    return family_translator(sizes | encoder, source, target, texts)


def family_translator(
    model: Mapping[str, Any],
    source: str = "xx",
    target: str = "yy",
    texts: Sequence[str] = TEXT,
    *,
    max_length: int = 200,
) -> Translator:
    """A model of any family, with these settings."""
    config = resolve(
        {
            "data": {"max_length": max_length, "source_language": source, "target_language": target},
            "model": {"d_model": 16} | dict(model),
            "decode": {"beam_size": 3, "max_extra": 5},
        }
    )
    tokenizer = Tokenizer.learn_at_most(texts, vocab_size=400, seed=1)
    torch.manual_seed(1)
    random = new_model(config.model, tokenizer.vocab_size).eval()
    return Translator(search_engine(random), tokenizer, config)


def taught_translator(source: str = "en", target: str = "de", pair: tuple[str, str] = (TEXT[0], TEXT[1])) -> Translator:
    """One that knows one sentence pair by heart, so that what it says has words."""
    return taught(small_translator(source, target, texts=TEXT if pair[0] in TEXT else pair), pair)


def taught(translator: Translator, pair: tuple[str, str] = (TEXT[0], TEXT[1])) -> Translator:
    """The same when it has learned this pair."""
    (model,), tokenizer = translator.engine.models, translator.tokenizer
    source_T, target_T = (np.array([*tokenizer.encode(text), tokenizer.eos_id]) for text in pair)
    lengths, target_lengths = np.array([len(source_T)]), np.array([len(target_T)])
    batch = pack_source(source_T, lengths), pack_target(shift_right(target_T), target_lengths, lengths)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*batch), torch.from_numpy(target_T), label_smoothing=0.1)
        torch.autograd.backward(loss)
        optimizer.step()
    return Translator(search_engine(model), tokenizer, translator.config)


def save_translator(translator: Translator, folder: Path) -> Path:
    """Write a model folder for the commands."""
    tokenizer = folder.with_suffix(".tokenizer")
    translator.tokenizer.save(tokenizer)
    save_model(folder, translator.engine.models[0].state_dict(), translator.config, tokenizer)
    return folder
