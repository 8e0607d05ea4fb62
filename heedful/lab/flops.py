"""How many floating-point operations a training took: those of one batch, counted as torch dispatches them.

An addition and a multiplication are two operations. The backward pass is taken for twice the forward pass, as each of
its products has two factors to differentiate by.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from heedful.config.settings import Config
from heedful.data.run_folder import TOKENIZER, TRAINING_DATA
from heedful.data.shards import open_shards
from heedful.data.tokenizer import Tokenizer
from heedful.lab.table1.operations import ATTENTION, aten
from heedful.model.registry import new_model
from heedful.train.batching import make_batch

SENTENCES = 64
FORWARD_AND_BACKWARD = 3


def training_flops(run: Path, config: Config, target_tokens: int) -> float:
    """Those of a run that has trained on so many target tokens, from its own first sentences."""
    shards = open_shards(run / TRAINING_DATA)
    batch = make_batch(shards, np.arange(min(SENTENCES, len(shards))))
    model = new_model(config.model, Tokenizer.load(run / TOKENIZER).vocab_size).eval()
    counter = flop_counter()
    with torch.no_grad(), counter:
        model.logits(model.decode(batch.target_in, model.encode(batch.source)))
    each = counter.get_total_flops() / batch.num_target_tokens
    return FORWARD_AND_BACKWARD * config.train.copies * each * target_tokens


def flop_counter() -> FlopCounterMode:
    """Torch's counter, with the products that it leaves out."""
    return FlopCounterMode(display=False, custom_mapping={ATTENTION: _attention, aten.mv: _matrix_times_vector})


def _attention(query: torch.Size, key: torch.Size, value: torch.Size, *_: Any, **__: Any) -> int:
    """QKᵀ and the weighted sum, from the shapes of the three."""
    count: int = sdpa_flop_count(query, key, value)
    return count


def _matrix_times_vector(matrix: torch.Size, *_: Any, **__: Any) -> int:
    """Such as tanh(…) @ v of additive attention, which torch's counter leaves out."""
    return 2 * matrix.numel()
