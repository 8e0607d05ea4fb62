"""A time axis for models that need one: packed rows as a table of sentences × positions, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.model.interface import Memory
from heedful.model.packed import Packed


@dataclass(frozen=True, slots=True)
class Padded:
    """Where the rows of N packed sentences lie in a table of N × L cells."""

    cell_of_row_T: Tensor
    is_token_NL: Tensor  # True: the cell holds a token

    def pad(self, x_TD: Tensor) -> Tensor:
        """Rows → table; cells behind the end of a sentence are zero."""
        cells_PD = x_TD.new_zeros(self.is_token_NL.numel(), *x_TD.shape[1:])
        return cells_PD.index_copy(0, self.cell_of_row_T, x_TD).view(*self.is_token_NL.shape, *x_TD.shape[1:])

    def pack(self, x_NLD: Tensor) -> Tensor:
        """Table → rows."""
        return x_NLD.flatten(0, 1).index_select(0, self.cell_of_row_T)


def padded(offsets_N: Tensor, longest: int, num_rows: int) -> Padded:
    """The table of sentences that begin at these rows and have at most `longest` tokens each."""
    lengths_N, row_T = offsets_N.diff().long(), torch.arange(num_rows, device=offsets_N.device)
    sentence_T = torch.bucketize(row_T, offsets_N[1:], right=True)
    cell_of_row_T = sentence_T * longest + row_T - offsets_N[sentence_T]
    is_token_NL = torch.arange(longest, device=offsets_N.device) < lengths_N[:, None]
    return Padded(cell_of_row_T, is_token_NL)


def padded_sentences(packed: Packed) -> Padded:
    """The table of a packed batch."""
    return padded(packed.self_layout.query_offsets_N, packed.longest, packed.tokens_T.size(0))


@dataclass(frozen=True, slots=True)
class PaddedMemory(Memory):
    """An encoder's output of sentences of at most `longest` tokens each."""

    longest: int

    def table(self) -> tuple[Tensor, Tensor]:
        """The output as sentences × positions, and True where there is a token."""
        view = padded(self.offsets_N, self.longest, self.hidden_SD.size(0))
        return view.pad(self.hidden_SD), view.is_token_NL

    def sentence(self, number: int) -> PaddedMemory:
        """That of one sentence."""
        alone = Memory.sentence(self, number)
        return PaddedMemory(alone.hidden_SD, alone.offsets_N, len(alone.hidden_SD))

    @classmethod
    def joined(cls, memories: Sequence[Memory]) -> PaddedMemory:
        """Several memories of one sentence each as one of all."""
        whole = Memory.joined(memories)
        return cls(whole.hidden_SD, whole.offsets_N, max(len(memory.hidden_SD) for memory in memories))
