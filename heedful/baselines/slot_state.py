"""What a decoder keeps between two tokens, for families whose decoder is not the Transformer's.

There are N slots of W hypotheses; a slot holds one sentence. Each hypothesis has tensors of its own (a recurrent state,
the last inputs of a convolution). The hypotheses of a slot share those of its sentence (the memory, in M places).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from heedful.model.interface import Memory


@dataclass(frozen=True, slots=True)
class Beginning:
    """What N sentences begin with: tensors by name. Those of `sentences` have M places in their second dimension."""

    hypothesis: Mapping[str, Tensor]
    sentence: Mapping[str, Tensor]


Begin: TypeAlias = Callable[[Memory], Beginning]


class SlotState:
    """Tensors by name: those of `hypothesis` begin with N × W, those of `sentence` with N × M.

    They are made when the first sentences come. Where there is no sentence, and after its end, they are zero.
    """

    def __init__(self, begin: Begin, num_slots: int, num_beams: int, *, device: torch.device) -> None:
        self.begin, self.num_beams = begin, num_beams
        self.hypothesis: dict[str, Tensor] = {}
        self.sentence: dict[str, Tensor] = {}
        self.position_N = torch.zeros(num_slots, dtype=torch.int64, device=device)  # tokens read so far

    @torch.no_grad()
    def admit(self, memory: Memory, slots: Sequence[int], *, longest: int) -> None:
        """New sentences in these slots."""
        beginning, slots_N = self.begin(memory), self._indices(slots)
        self._make_room(beginning)
        self.clear(slots)
        for name, value in beginning.hypothesis.items():
            self.hypothesis[name][slots_N] = value[:, None].expand(-1, self.num_beams, *value.shape[1:])
        for name, value in beginning.sentence.items():
            self.sentence[name][slots_N, : value.size(1)] = value

    def _make_room(self, beginning: Beginning) -> None:
        num_slots = self.position_N.numel()
        for name, value in beginning.hypothesis.items():
            if name not in self.hypothesis:
                self.hypothesis[name] = value.new_zeros(num_slots, self.num_beams, *value.shape[1:])
        for name, value in beginning.sentence.items():
            if name not in self.sentence:
                self.sentence[name] = value.new_zeros(num_slots, *value.shape[1:])
            elif (more := value.size(1) - self.sentence[name].size(1)) > 0:
                room = value.new_zeros(num_slots, more, *value.shape[2:])
                self.sentence[name] = torch.cat([self.sentence[name], room], dim=1)

    def clear(self, slots: Sequence[int]) -> None:
        """No sentences in these slots."""
        slots_N = self._indices(slots)
        for value in (*self.hypothesis.values(), *self.sentence.values(), self.position_N):
            value[slots_N] = 0

    def select(self, parents_NW: Tensor) -> None:
        """Hypotheses go on from others of their slot."""
        slot_N1 = torch.arange(len(parents_NW), device=parents_NW.device)[:, None]
        self.hypothesis = {name: value[slot_N1, parents_NW] for name, value in self.hypothesis.items()}

    def keep(self, slots: Sequence[int]) -> None:
        """Go on with these slots only."""
        slots_N = self._indices(slots)
        self.hypothesis = {name: value[slots_N] for name, value in self.hypothesis.items()}
        self.sentence = {name: value[slots_N] for name, value in self.sentence.items()}
        self.position_N = self.position_N[slots_N]

    def _indices(self, slots: Sequence[int]) -> Tensor:
        return torch.tensor(slots, device=self.position_N.device)
