"""A family of models of our own: a bag of source words, and the mean of the target's words so far."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful import FamilyConfig, Memory, Packed, TranslationModel


class BagConfig(FamilyConfig, frozen=True, kw_only=True):
    """What stands under [model]."""

    family: str = "bag"
    slope: float = 0.1


class Bag(TranslationModel):
    """Hidden state t: the mean of the source, and of the target before t, through one layer."""

    family, settings = "bag", BagConfig
    config: BagConfig

    def __init__(self, config: FamilyConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        self.words = nn.Embedding(vocab_size, config.d_model)
        self.layer = nn.Linear(3 * config.d_model, config.d_model)
        self.output = nn.Linear(config.d_model, vocab_size, bias=False)

    def encode(self, source: Packed) -> Memory:
        """The words; what is made of them is a matter of the decoder."""
        return Memory(self.words(source.tokens_T), source.self_layout.query_offsets_N)

    def decode(self, target_in: Packed, memory: Memory) -> Tensor:
        """Means before t: a running sum, less what it was at the sentence's beginning."""
        source_NT = memory.offsets_N.diff().long()
        source_ND = torch.segment_reduce(memory.hidden_SD, "mean", lengths=source_NT)
        lengths_N = target_in.self_layout.query_offsets_N.diff().long()
        words_TD = self.words(target_in.tokens_T).masked_fill((target_in.positions_T == 0)[:, None], 0.0)
        sums_TD = words_TD.cumsum(dim=0)
        before_ND = (sums_TD - words_TD)[target_in.self_layout.query_offsets_N[:-1].long()]
        so_far_TD = sums_TD - before_ND.repeat_interleave(lengths_N, dim=0)
        mean_TD = so_far_TD / (target_in.positions_T + 1)[:, None]
        bag_TD = source_ND.repeat_interleave(lengths_N, dim=0)
        return F.leaky_relu(self.layer(torch.cat([bag_TD, mean_TD, words_TD], dim=1)), self.config.slope)

    def logits(self, hidden_TD: Tensor) -> Tensor:
        """One product."""
        logits_TV: Tensor = self.output(hidden_TD)
        return logits_TV
