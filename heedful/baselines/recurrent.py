"""Recurrent encoder and decoder, with and without attention: Sutskever 2014, Bahdanau 2015, Luong 2015.

Which settings make which of them is in docs/baselines.md. All but the logits is computed in float32, mixed precision or
not: in 16 bits the rounding of a state would add up from step to step. Cells are in `recurrent_cells.py`, decoders in
`recurrent_decoders.py`, attention and readout in `recurrent_attention.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful.baselines.padded import PaddedMemory
from heedful.baselines.recurrent_attention import Annotations, BahdanauAttention
from heedful.baselines.recurrent_cells import Cell, CellState, new_cell, rows_of
from heedful.baselines.recurrent_decoders import AttendingDecoder, new_decoder
from heedful.baselines.slot_state import Beginning, SlotState
from heedful.baselines.time_steps import TimeSteps, directions, time_steps
from heedful.config.baseline_settings import RecurrentConfig
from heedful.config.settings import FamilyConfig
from heedful.model.attention import Recorder
from heedful.model.dropout import Dropout
from heedful.model.interface import Decoder, Memory, RecordedAttention, TranslationModel
from heedful.model.packed import Packed


@dataclass(frozen=True, slots=True)
class RecurrentMemory(PaddedMemory):
    """The annotations of each source token, and the states of each sentence that the decoder begins with."""

    states: Sequence[CellState]  # layer by layer


class Recurrent(TranslationModel):
    """One matrix serves for both embeddings, times √d_model, and for the logits, as in the Transformer."""

    family, settings = "recurrent", RecurrentConfig

    def __init__(self, config: FamilyConfig, vocab_size: int) -> None:
        assert isinstance(config, RecurrentConfig), "the settings of this family"
        super().__init__(config, vocab_size)
        self.config: RecurrentConfig = config
        self.embedding_VD = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.encoder = Encoder(config)
        self.decoder = new_decoder(config)
        self.source_dropout = Dropout(config.dropout)
        self.target_dropout = Dropout(config.dropout)
        self.output_dropout = Dropout(config.dropout)
        if not self.embedding_VD.is_meta:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Linears Xavier-uniform, biases zero, embeddings normal; what a gate takes from its state orthogonal."""
        nn.init.normal_(self.embedding_VD, std=self.config.d_model**-0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, BahdanauAttention):
                nn.init.uniform_(module.v_D, -(self.config.d_model**-0.5), self.config.d_model**-0.5)
        for cell in (module for module in self.modules() if isinstance(module, Cell)):
            for product in cell.of_state():
                for gate in product.weight.detach().split(self.config.d_model):
                    nn.init.orthogonal_(gate[:, : self.config.d_model])

    def encode(self, source: Packed) -> RecurrentMemory:
        """Source tokens → annotations, and the states that the decoder begins with."""
        offsets_N = source.self_layout.query_offsets_N
        with self.in_its_own_precision():
            x_SD = self.source_dropout(self._embedded(source.tokens_T))
            annotations_SC, states = self.encoder(x_SD, offsets_N)
        return RecurrentMemory(annotations_SC, offsets_N, source.longest, states)

    def decode(self, target_in: Packed, memory: Memory) -> Tensor:
        """The target shifted right, and the memory → a vector for each word, of which the logits are made."""
        assert isinstance(memory, RecurrentMemory), "what this model's encoder gives"
        steps = time_steps(target_in.self_layout.query_offsets_N)
        with self.in_its_own_precision():
            words_TD = self.target_dropout(self.words(target_in.tokens_T, target_in.positions_T))
            states = [rows_of(state, steps.sentence_N) for state in self.decoder.begin(memory.states)]
            vectors_TD: Tensor = self.output_dropout(self.decoder(words_TD, steps, memory, states))
        return vectors_TD

    def words(self, tokens_T: Tensor, positions_T: Tensor) -> Tensor:
        """The words before, and the zero vector before the first."""
        return self._embedded(tokens_T).masked_fill((positions_T == 0)[:, None], 0.0)

    def _embedded(self, tokens_T: Tensor) -> Tensor:
        return F.embedding(tokens_T, self.embedding_VD) * math.sqrt(self.config.d_model)

    def in_its_own_precision(self) -> AbstractContextManager[None]:
        """Within this context autocast is off."""
        return torch.autocast(self.device.type, enabled=False)

    def logits(self, hidden_TD: Tensor) -> Tensor:
        """The scores of all V next tokens, before the softmax."""
        return F.linear(hidden_TD, self.embedding_VD)

    def projection(self) -> Tensor:
        """The matrix of both embeddings."""
        return self.embedding_VD

    def new_decoder(self) -> Decoder[Any]:
        """With the states of each hypothesis for a cache."""
        return RecurrentStepDecoder(self)

    @contextmanager
    def recorded_attention(self) -> Iterator[RecordedAttention]:
        """That of the decoder over the source; without attention none."""
        if not isinstance(self.decoder, AttendingDecoder):
            yield {}
            return
        self.decoder.recorder = recorder = Recorder()
        try:
            yield {"cross": [recorder]}
        finally:
            self.decoder.recorder = None


class Encoder(nn.Module):
    """Layers of cells that read the source from its beginning, from its end, or both ways."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        widths = [config.d_model, *[config.annotation_width] * (config.num_layers - 1)]
        self.layers = nn.ModuleList(RecurrentLayer(config, width) for width in widths)
        self.from_the_end = (False, True) if config.is_bidirectional else (config.reverses_source,)
        self.dropout = Dropout(config.dropout)

    def forward(self, x_SD: Tensor, offsets_N: Tensor) -> tuple[Tensor, list[CellState]]:
        """The annotations, and for each layer the state that the decoder's layer begins with."""
        steps = directions(offsets_N, self.from_the_end)
        states: list[CellState] = []
        for layer in self.layers:
            x_SD, state = layer(self.dropout(x_SD) if states else x_SD, steps)
            states.append(state)
        return x_SD, states


class RecurrentLayer(nn.Module):
    """A cell for each direction."""

    def __init__(self, config: RecurrentConfig, num_inputs: int) -> None:
        super().__init__()
        self.d_model = config.d_model
        self.cells = nn.ModuleList(new_cell(config, num_inputs) for _ in range(1 + config.is_bidirectional))
        self.bridge = nn.Linear(config.d_model, config.d_model) if config.is_bidirectional else None

    def forward(self, x_SD: Tensor, steps: Sequence[TimeSteps]) -> tuple[Tensor, CellState]:
        """The outputs of the cells for each token, side by side, and the state for the decoder."""
        read = [self._read(cell, x_SD, each) for cell, each in zip(self.cells, steps, strict=True)]
        outputs, states = zip(*read, strict=True)
        return torch.cat(outputs, dim=1), self._bridged(states[-1])

    def _read(self, cell: nn.Module, x_SD: Tensor, steps: TimeSteps) -> tuple[Tensor, CellState]:
        assert isinstance(cell, Cell)
        nothing_ND = x_SD.new_zeros(steps.sizes[0], self.d_model)
        output_SD, last = cell.run(steps.by_time(x_SD), steps, (nothing_ND,) * cell.num_parts)
        return steps.packed(output_SD), rows_of(last, steps.rank_N)

    def _bridged(self, state: CellState) -> CellState:
        """Bahdanau 2015, A.2.2: s = tanh(W h), h the last state of the cell that reads from the end."""
        if self.bridge is None:
            return state
        h_ND, *others = state
        return self.bridge(h_ND).tanh(), *others


class RecurrentStepDecoder:
    """A model one token at a time: the state of each hypothesis, and the annotations of each sentence."""

    def __init__(self, model: Recurrent) -> None:
        assert not model.training, "decoding is for a model in eval mode; dropout is for training"
        self.model = model

    def empty(self, num_slots: int, num_beams: int, *, source_length: int = 0) -> SlotState:
        """A state with no sentence in it."""
        return SlotState(self._begin, num_slots, num_beams, device=self.model.device)

    def _begin(self, memory: Memory) -> Beginning:
        assert isinstance(memory, RecurrentMemory), "what this model's encoder gives"
        with self.model.in_its_own_precision():
            states, source = self.model.decoder.begin(memory.states), self.model.decoder.source(memory)
        tables = {} if source is None else source.tables()
        hypothesis = {
            f"{layer} {part}": part_ND for layer, state in enumerate(states) for part, part_ND in enumerate(state)
        }
        return Beginning(hypothesis, tables)

    @torch.no_grad()
    def step(self, ids_R: Tensor, state: SlotState) -> Tensor:
        """The last token of each row → the logits of the next one; at position 0 the token is ignored."""
        positions_R = state.position_N.repeat_interleave(state.num_beams, output_size=ids_R.numel())
        words_RD = self.model.words(ids_R, positions_R)
        source = Annotations(**state.sentence) if state.sentence else None
        with self.model.in_its_own_precision():
            vectors_RD, states = self.model.decoder.step(words_RD, _states(state.hypothesis), source)
        parts = [part_RD for each in states for part_RD in each]
        for name, part_RD in zip(state.hypothesis, parts, strict=True):
            state.hypothesis[name] = part_RD.unflatten(0, (-1, state.num_beams))
        state.position_N += 1
        return self.model.logits(vectors_RD)


def _states(hypothesis: Mapping[str, Tensor]) -> list[CellState]:
    """Layer by layer, from the names that `RecurrentStepDecoder` gives."""
    layers = groupby(hypothesis.items(), key=lambda item: item[0].partition(" ")[0])
    return [tuple(part_NWD.flatten(0, 1) for _, part_NWD in parts) for _, parts in layers]
