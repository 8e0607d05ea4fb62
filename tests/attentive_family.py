"""A family of models of our own with cross-attention alone, which records weights and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from heedful import Memory, Packed
from heedful.model.attention import Recorder, layout_mask
from heedful.model.interface import RecordedAttention
from tests.toy_family import Bag, BagConfig


class GlanceConfig(BagConfig, frozen=True, kw_only=True):
    """What stands under [model]."""

    family: str = "glance"
    sharpness: float = 2.0


class Glance(Bag):
    """A bag of words that then looks at the source: one head, by dot products that are not divided by √d_k."""

    family, settings = "glance", GlanceConfig
    config: GlanceConfig
    recorder: Recorder | None = None

    def decode(self, target_in: Packed, memory: Memory) -> Tensor:
        """What the bag gives, and the source words that are most like it."""
        bag_TD = super().decode(target_in, memory)
        assert target_in.cross_layout is not None, "a target is packed with the lengths of its source"
        mask_TS = layout_mask(target_in.cross_layout, len(bag_TD), len(memory.hidden_SD))
        scores_TS = self.config.sharpness * bag_TD @ memory.hidden_SD.mT
        weights_TS = scores_TS.masked_fill(~mask_TS, -math.inf).softmax(dim=-1)
        if self.recorder is not None:
            self.recorder.weights.append(weights_TS[None])
        return bag_TD + weights_TS @ memory.hidden_SD

    @contextmanager
    def recorded_attention(self) -> Iterator[RecordedAttention]:
        """One layer of cross-attention."""
        self.recorder = Recorder()
        try:
            yield {"cross": [self.recorder]}
        finally:
            self.recorder = None
