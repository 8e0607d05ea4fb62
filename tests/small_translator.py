"""A translator with random weights, small enough to look into within a test."""

from __future__ import annotations

import torch

from heedful.config import resolve
from heedful.engines.torch_engine import TorchEngine
from heedful.model.transformer import Transformer
from heedful.tokenizer import Tokenizer
from heedful.translation import Translator

TEXT = [
    "The animal didn't cross the road because it was too tired.",
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "그 동물은 너무 피곤해서 길을 건너지 않았다.",
]


def small_translator(source: str = "xx", target: str = "yy", num_layers: int = 2) -> Translator:
    """Two layers, two heads; languages that the grammar does not know, unless told."""
    config = resolve(
        {
            "data": {"max_length": 200, "source_language": source, "target_language": target},
            "model": {"d_model": 16, "d_ff": 24, "num_layers": num_layers, "num_heads": 2},
            "decode": {"beam_size": 3, "max_extra": 5},
        }
    )
    tokenizer = Tokenizer.learn_at_most(TEXT, vocab_size=400, seed=1)
    torch.manual_seed(1)
    model = Transformer(config.model, tokenizer.vocab_size).eval()
    return Translator(TorchEngine(model), tokenizer, config)
