"""Attention and readout of recurrent decoders: Bahdanau 2015 (additive, maxout) and Luong 2015 (products, tanh).

They know states and annotations; no cells and no words.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from heedful.config.baseline_settings import RecurrentConfig


@dataclass(frozen=True, slots=True)
class Annotations:
    """What attention looks at, in a table of sentences × places: its keys, and the annotations themselves."""

    keys_NMD: Tensor
    values_NMC: Tensor
    is_token_NM: Tensor

    def tables(self) -> dict[str, Tensor]:
        """The tables, by their fields' names."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def reordered(self, sentence_N: Tensor) -> Annotations:
        """The sentences in this order."""
        return Annotations(*(table.index_select(0, sentence_N) for table in self.tables().values()))

    def first(self, count: int) -> Annotations:
        """Those of the first sentences."""
        if count == len(self.keys_NMD):
            return self
        return Annotations(*(table[:count] for table in self.tables().values()))


class Attention(nn.Module):
    """α = softmax(e) over the places of a sentence, and c = Σ α h; its kinds differ in e."""

    def keys(self, annotations_SC: Tensor) -> Tensor:
        """What the scores need of each annotation."""
        raise NotImplementedError

    def scores(self, query_NLD: Tensor, keys_NMD: Tensor) -> Tensor:
        """e of L states and M annotations."""
        raise NotImplementedError

    def look(self, query_NLD: Tensor, source: Annotations) -> tuple[Tensor, Tensor]:
        """Return the contexts c and the weights α. Empty rows give finite values that are never read."""
        scores_NLM = self.scores(query_NLD, source.keys_NMD)
        lowest = torch.finfo(scores_NLM.dtype).min
        weights_NLM = scores_NLM.masked_fill(~source.is_token_NM[:, None], lowest).softmax(dim=-1)
        return weights_NLM @ source.values_NMC, weights_NLM


class BahdanauAttention(Attention):
    """Bahdanau 2015, A.1.2: e = vᵀ tanh(W s + U h)."""

    def __init__(self, width: int, annotation_width: int) -> None:
        super().__init__()
        self.W = nn.Linear(width, width, bias=False)
        self.U = nn.Linear(annotation_width, width, bias=False)
        self.v_D = nn.Parameter(torch.empty(width))

    def keys(self, annotations_SC: Tensor) -> Tensor:
        """U h: the part of the scores that is the same for all states."""
        keys_SD: Tensor = self.U(annotations_SC)
        return keys_SD

    def scores(self, query_NLD: Tensor, keys_NMD: Tensor) -> Tensor:
        """vᵀ tanh(W s + U h)."""
        query_NLD = self.W(query_NLD)
        return (query_NLD[:, :, None] + keys_NMD[:, None]).tanh() @ self.v_D


class ProductAttention(Attention):
    """Luong 2015, section 3.1: e = sᵀ W h (`general`), or sᵀ h (`dot`)."""

    def __init__(self, width: int, annotation_width: int, *, has_matrix: bool) -> None:
        super().__init__()
        self.W = nn.Linear(annotation_width, width, bias=False) if has_matrix else nn.Identity()

    def keys(self, annotations_SC: Tensor) -> Tensor:
        """W h: the part of the scores that is the same for all states."""
        keys_SD: Tensor = self.W(annotations_SC)
        return keys_SD

    def scores(self, query_NLD: Tensor, keys_NMD: Tensor) -> Tensor:
        """sᵀ W h."""
        return query_NLD @ keys_NMD.mT


class Maxout(nn.Module):
    """Bahdanau 2015, A.2.2: of U s + V y + C c, which is twice as wide, the larger number of each pair."""

    def __init__(self, width: int, context_width: int) -> None:
        super().__init__()
        self.W = nn.Linear(2 * width + context_width, 2 * width)

    def forward(self, state_TD: Tensor, word_TD: Tensor, *context_TC: Tensor) -> Tensor:
        first_TD, second_TD = self.W(torch.cat([state_TD, word_TD, *context_TC], dim=1)).chunk(2, dim=1)
        return torch.maximum(first_TD, second_TD)


class AttentionalLayer(nn.Module):
    """Luong 2015, equation 5: tanh(W [c; h])."""

    def __init__(self, width: int, context_width: int) -> None:
        super().__init__()
        self.W = nn.Linear(context_width + width, width, bias=False)

    def forward(self, state_TD: Tensor, word_TD: Tensor, *context_TC: Tensor) -> Tensor:
        attentional_TD: Tensor = self.W(torch.cat([*context_TC, state_TD], dim=1)).tanh()
        return attentional_TD


class StateItself(nn.Module):
    """Sutskever 2014: the logits are made of the highest state."""

    def forward(self, state_TD: Tensor, word_TD: Tensor, *context_TC: Tensor) -> Tensor:
        return state_TD


def new_attention(config: RecurrentConfig) -> Attention:
    """The attention that the settings ask for."""
    sizes = (config.d_model, config.annotation_width)
    if config.attention == "additive":
        return BahdanauAttention(*sizes)
    return ProductAttention(*sizes, has_matrix=config.attention == "general")


def new_readout(config: RecurrentConfig) -> nn.Module:
    """What stands between the highest state and the logits."""
    if config.readout_kind == "state":
        return StateItself()
    kind = Maxout if config.readout_kind == "maxout" else AttentionalLayer
    return kind(config.d_model, config.context_width)
