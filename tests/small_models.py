"""A small random model as a folder, for the tests of what is done with models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from heedful.config.setting_layers import resolve
from heedful.data.tokenizer import Tokenizer
from heedful.model.checkpoint import save_model
from heedful.model.transformer import Transformer

TEXT = [
    "The animal didn't cross the road because it was too tired.",
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "The cat sat on the mat, and the dog ran into the forest.",
    "Die Katze saß auf der Matte, und der Hund lief in den Wald.",
]


def small_model(
    folder: Path,
    *,
    seed: int = 1,
    vocab_size: int = 400,
    text: Sequence[str] = TEXT,
    data: dict[str, Any] | None = None,
    **model: Any,
) -> Path:
    """A model folder; its weights are large enough for it to have opinions, and its outputs end sooner or later."""
    shape = {"d_model": 16, "d_ff": 24, "num_layers": 2, "num_heads": 2} | model
    config = resolve({"data": {"source_language": "en", "target_language": "de"} | (data or {}), "model": shape})
    tokenizer = Tokenizer.learn_at_most(text, vocab_size, seed=1)
    torch.manual_seed(seed)
    random = Transformer(config.model, tokenizer.vocab_size)
    for name, parameter in random.named_parameters():
        mean = 1.0 if name.endswith("norm.weight") else 0.0
        torch.nn.init.normal_(parameter, mean=mean, std=0.8 if "feed_forward.W" in name else 0.15)
    with torch.no_grad():
        random.embedding.weight_VD[0] *= 2
    tokenizer.save(folder.with_name(f"{folder.name}.spm"))
    save_model(folder, random.state_dict(), config, folder.with_name(f"{folder.name}.spm"))
    return folder
