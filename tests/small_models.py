"""A small random model as a folder, for the tests of what is done with models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from heedful.checkpoint import save_model
from heedful.config import resolve
from heedful.model.transformer import Transformer
from heedful.tokenizer import Tokenizer

TEXT = [
    "The animal didn't cross the road because it was too tired.",
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "The cat sat on the mat, and the dog ran into the forest.",
    "Die Katze saß auf der Matte, und der Hund lief in den Wald.",
]


def small_model(folder: Path, *, seed: int = 1, data: dict[str, Any] | None = None, **model: Any) -> Path:
    """A model folder; its weights are large enough for it to have opinions, and its outputs end sooner or later."""
    shape = {"d_model": 16, "d_ff": 24, "num_layers": 2, "num_heads": 2} | model
    config = resolve({"data": {"source_language": "en", "target_language": "de"} | (data or {}), "model": shape})
    tokenizer = Tokenizer.learn_at_most(TEXT, 400, seed=1)
    torch.manual_seed(seed)
    random = Transformer(config.model, tokenizer.vocab_size)
    with torch.no_grad():
        direction_D = torch.ones(config.model.d_model)
        random.embedding.weight_VD.mul_(3.0)
        random.embedding.weight_VD[0] += 1.2 * direction_D / config.model.d_model
        for name, parameter in random.named_parameters():
            if name.endswith("norm.bias"):
                parameter.add_(0.1 * torch.randn_like(parameter))
        random.decoder[-1].get_submodule("feed_forward_norm.norm").bias.add_(direction_D)  # type: ignore[operator]
    tokenizer.save(folder.with_name(f"{folder.name}.spm"))
    save_model(folder, random.state_dict(), config, folder.with_name(f"{folder.name}.spm"))
    return folder
