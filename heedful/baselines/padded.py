"""A time axis for models that need one: packed rows as a table of sentences × positions, and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.baselines.packed_convolution import Places
from heedful.model.interface import Memory
from heedful.model.packed import Packed


@dataclass(frozen=True, slots=True)
class SentenceTable:
    """Where the rows of N packed sentences lie in a table of N × L cells."""

    cell_of_row_T: Tensor
    is_token_NL: Tensor  # True: the cell holds a token

    def pad(self, x_TD: Tensor) -> Tensor:
        """Rows → table; cells after the end of a sentence are zero."""
        cells_PD = x_TD.new_zeros(self.is_token_NL.numel(), *x_TD.shape[1:])
        return cells_PD.index_copy(0, self.cell_of_row_T, x_TD).view(*self.is_token_NL.shape, *x_TD.shape[1:])

    def pack(self, x_NLD: Tensor) -> Tensor:
        """Table → rows."""
        return x_NLD.flatten(0, 1).index_select(0, self.cell_of_row_T)


def sentence_table(offsets_N: Tensor, longest: int, num_rows: int) -> SentenceTable:
    """The table of sentences that begin at these rows and have at most `longest` tokens each."""
    places = Places.of(offsets_N, num_rows)
    is_token_NL = torch.arange(longest, device=offsets_N.device) < offsets_N.diff()[:, None]
    return SentenceTable(places.sentence_T * longest + places.place_T, is_token_NL)


def table_of_batch(packed: Packed) -> SentenceTable:
    """The table of a packed batch."""
    return sentence_table(packed.self_layout.query_offsets_N, packed.longest, packed.tokens_T.size(0))


@dataclass(frozen=True, slots=True)
class PaddedMemory(Memory):
    """An encoder's output for sentences of at most `longest` tokens each."""

    longest: int

    def table(self) -> tuple[Tensor, Tensor]:
        """The output as sentences × positions, and True where there is a token."""
        view = sentence_table(self.offsets_N, self.longest, self.hidden_SD.size(0))
        return view.pad(self.hidden_SD), view.is_token_NL
