"""The batch of a forced pass: a model reads given sources and given targets once, and searches nothing.

Ids come without the eos, which is added here. The caller decides what the pass computes, scores or attention.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from heedful.data.tokenizer import Tokenizer
from heedful.model.layout import Lengths
from heedful.model.packed import Packed, TokenIds, pack_source, pack_target, shift_right


def with_eos(sentences: Sequence[Sequence[int]]) -> tuple[TokenIds, Lengths]:
    """The sentences in one row, each with its eos, and their lengths."""
    ids_T = np.concatenate([[*sentence, Tokenizer.eos_id] for sentence in sentences]).astype(np.int64)
    return ids_T, np.array([len(sentence) + 1 for sentence in sentences], dtype=np.int64)


def packed_sources(sources: Sequence[Sequence[int]], device: torch.device) -> Packed:
    """The encoder's input."""
    return pack_source(*with_eos(sources)).to(device)


def forced_batch(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], device: torch.device
) -> tuple[Packed, Packed]:
    """The encoder's input, and the decoder's: the targets shifted right."""
    source_T, source_lengths_N = with_eos(sources)
    target_T, target_lengths_N = with_eos(targets)
    target_in = pack_target(shift_right(target_T), target_lengths_N, source_lengths_N)
    return pack_source(source_T, source_lengths_N).to(device), target_in.to(device)
