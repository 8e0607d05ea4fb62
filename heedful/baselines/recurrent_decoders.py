"""Recurrent decoders: all steps of packed sentences in training, one step at a time in search.

What does not depend on the step before is computed for all steps at once: the products with the words, the layers above
an attention that only the first one needs, and the readout.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful.baselines.padded import PaddedMemory, sentence_table
from heedful.baselines.recurrent_attention import Annotations, new_attention, new_readout
from heedful.baselines.recurrent_cells import Cell, CellState, first_rows, new_cell
from heedful.baselines.time_steps import TimeSteps
from heedful.config.baseline_settings import RecurrentConfig
from heedful.model.attention import Recorder
from heedful.model.dropout import Dropout


class PlainDecoder(nn.Module):
    """Sutskever 2014: a step knows its word and a state, which begins as the encoder's last; no attention."""

    def __init__(self, config: RecurrentConfig, num_fed: int = 0) -> None:
        super().__init__()
        fed = [num_fed, *[0] * (config.num_layers - 1)]
        self.layers = nn.ModuleList(new_cell(config, config.d_model, each) for each in fed)
        self.dropout = Dropout(config.dropout)
        self.readout = new_readout(config)

    @property
    def cells(self) -> list[Cell]:
        """The layers, the lowest first."""
        return [cell for cell in self.layers if isinstance(cell, Cell)]

    def begin(self, states: Sequence[CellState]) -> list[CellState]:
        """What is known before the first step, from the encoder's states."""
        return list(states)

    def source(self, memory: PaddedMemory) -> Annotations | None:
        """What a step looks at."""
        return None

    def forward(self, words_TD: Tensor, steps: TimeSteps, memory: PaddedMemory, states: Sequence[CellState]) -> Tensor:
        """All steps: a vector for each packed word, of which the logits are made."""
        vectors_TD: Tensor = self.readout(self._all_layers(words_TD, steps, states), words_TD)
        return vectors_TD

    def step(
        self, word_RD: Tensor, states: Sequence[CellState], source: Annotations | None
    ) -> tuple[Tensor, list[CellState]]:
        """One step of R hypotheses."""
        states = self._one_step(self.cells[0].W(word_RD), states)
        return self.readout(states[-1][0], word_RD), states

    def _all_layers(self, words_TD: Tensor, steps: TimeSteps, states: Sequence[CellState]) -> Tensor:
        x_TD, _ = self.cells[0].run(steps.by_time(words_TD), steps, states[0])
        return steps.packed(self._upper_layers(x_TD, steps, states))

    def _upper_layers(self, x_TD: Tensor, steps: TimeSteps, states: Sequence[CellState]) -> Tensor:
        for cell, state in zip(self.cells[1:], states[1:], strict=True):
            x_TD, _ = cell.run(self.dropout(x_TD), steps, state)
        return x_TD

    def _one_step(self, input_RX: Tensor, states: Sequence[CellState], *fed: Tensor) -> list[CellState]:
        new = [self.cells[0].step(input_RX, states[0], *fed)]
        for cell, state in zip(self.cells[1:], states[1:], strict=True):
            new.append(cell.step(cell.W(self.dropout(new[-1][0])), state))
        return new


class AttendingDecoder(PlainDecoder):
    """Luong 2015: the highest state of a step looks at the source, and the readout sees both."""

    def __init__(self, config: RecurrentConfig, num_fed: int = 0) -> None:
        super().__init__(config, num_fed)
        self.attention = new_attention(config)
        self.recorder: Recorder | None = None

    def source(self, memory: PaddedMemory) -> Annotations:
        """Keys and annotations of each sentence."""
        view = sentence_table(memory.offsets_N, memory.longest, memory.hidden_SD.size(0))
        keys_NMD, values_NMC = view.pad(self.attention.keys(memory.hidden_SD)), view.pad(memory.hidden_SD)
        return Annotations(keys_NMD, values_NMC, view.is_token_NL)

    def forward(self, words_TD: Tensor, steps: TimeSteps, memory: PaddedMemory, states: Sequence[CellState]) -> Tensor:
        """All steps of all layers, and then all attention at once."""
        top_TD = self._all_layers(words_TD, steps, states)
        view = sentence_table(steps.offsets_N, len(steps.sizes), top_TD.size(0))
        context_NLC, weights_NLM = self.attention.look(view.pad(top_TD), self.source(memory))
        self._record(weights_NLM, steps, memory)
        vectors_TD: Tensor = self.readout(top_TD, words_TD, view.pack(context_NLC))
        return vectors_TD

    def step(
        self, word_RD: Tensor, states: Sequence[CellState], source: Annotations | None
    ) -> tuple[Tensor, list[CellState]]:
        states = self._one_step(self.cells[0].W(word_RD), states)
        context_RC, _ = self._look(states[-1][0], source)
        return self.readout(states[-1][0], word_RD, context_RC), states

    def _look(self, state_RD: Tensor, source: Annotations | None) -> tuple[Tensor, Tensor]:
        """The states of N sentences, which may have several hypotheses each."""
        assert source is not None, "this decoder has an attention"
        context_NWC, weights_NWM = self.attention.look(state_RD.unflatten(0, (len(source.keys_NMD), -1)), source)
        return context_NWC.flatten(0, 1), weights_NWM

    def _record(self, weights_NLM: Tensor, steps: TimeSteps, memory: PaddedMemory) -> None:
        """Keep the weights of a batch, as those of its packed rows, if somebody wants them."""
        if self.recorder is not None:
            sizes = zip(steps.offsets_N.diff().tolist(), memory.offsets_N.diff().tolist(), strict=True)
            blocks = [weights_LM[:t, :s] for weights_LM, (t, s) in zip(weights_NLM, sizes, strict=True)]
            self.recorder.weights.append(torch.block_diag(*blocks)[None])

    def _record_steps(self, weights: Sequence[Tensor], steps: TimeSteps, memory: PaddedMemory) -> None:
        """The same for weights of single steps; a step has those of the sentences that have not ended."""
        if self.recorder is None:
            return
        whole = [F.pad(weights_N1M, (0, 0, 0, 0, 0, steps.sizes[0] - len(weights_N1M))) for weights_N1M in weights]
        self._record(torch.cat(whole, dim=1)[steps.rank_N], steps, memory)


class InputFeedingDecoder(AttendingDecoder):
    """Luong 2015, section 3.3: the readout of a step is an input of the next one, zero at first."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, num_fed=config.d_model)

    def begin(self, states: Sequence[CellState]) -> list[CellState]:
        """The readout before the first step comes last."""
        return [*states, (torch.zeros_like(states[0][0]),)]

    def forward(self, words_TD: Tensor, steps: TimeSteps, memory: PaddedMemory, states: Sequence[CellState]) -> Tensor:
        """Step after step."""
        word_TD, source = steps.by_time(words_TD), self.source(memory).reordered(steps.sentence_N)
        vectors, weights = [], []
        inputs = self.cells[0].W(word_TD).split(steps.sizes), word_TD.split(steps.sizes)
        for input_RX, word_RD in zip(*inputs, strict=True):
            states, source = [first_rows(state, len(word_RD))[0] for state in states], source.first(len(word_RD))
            states, weights_N1M = self._fed_step(input_RX, word_RD, states, source)
            vectors.append(states[-1][0])
            weights.append(weights_N1M)
        self._record_steps(weights, steps, memory)
        return steps.packed(torch.cat(vectors))

    def step(
        self, word_RD: Tensor, states: Sequence[CellState], source: Annotations | None
    ) -> tuple[Tensor, list[CellState]]:
        states, _ = self._fed_step(self.cells[0].W(word_RD), word_RD, states, source)
        return states[-1][0], states

    def _fed_step(
        self, input_RX: Tensor, word_RD: Tensor, states: Sequence[CellState], source: Annotations | None
    ) -> tuple[list[CellState], Tensor]:
        *layers, (vector_RD,) = states
        layers = self._one_step(input_RX, layers, vector_RD)
        context_RC, weights_NWM = self._look(layers[-1][0], source)
        return [*layers, (self.readout(layers[-1][0], word_RD, context_RC),)], weights_NWM


class AlignAndTranslate(AttendingDecoder):
    """Bahdanau 2015, A.2.2: the state before a step looks at the source, and what it finds is an input of the step.

    Of several layers it is the first one that looks.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, num_fed=config.context_width)

    def forward(self, words_TD: Tensor, steps: TimeSteps, memory: PaddedMemory, states: Sequence[CellState]) -> Tensor:
        """The first layer step after step, the others at once."""
        source, state = self.source(memory).reordered(steps.sentence_N), states[0]
        outputs, contexts, weights = [], [], []
        for input_RX in self.cells[0].W(steps.by_time(words_TD)).split(steps.sizes):
            state, source = first_rows(state, len(input_RX))[0], source.first(len(input_RX))
            context_RC, weights_N1M = self._look(state[0], source)
            state = self.cells[0].step(input_RX, state, context_RC)
            outputs.append(state[0])
            contexts.append(context_RC)
            weights.append(weights_N1M)
        self._record_steps(weights, steps, memory)
        top_TD = steps.packed(self._upper_layers(torch.cat(outputs), steps, states))
        vectors_TD: Tensor = self.readout(top_TD, words_TD, steps.packed(torch.cat(contexts)))
        return vectors_TD

    def step(
        self, word_RD: Tensor, states: Sequence[CellState], source: Annotations | None
    ) -> tuple[Tensor, list[CellState]]:
        context_RC, _ = self._look(states[0][0], source)
        states = self._one_step(self.cells[0].W(word_RD), states, context_RC)
        return self.readout(states[-1][0], word_RD, context_RC), states


def new_decoder(config: RecurrentConfig) -> PlainDecoder:
    """The decoder that the settings ask for."""
    if config.attention == "none":
        return PlainDecoder(config)
    if config.attention == "additive":
        return AlignAndTranslate(config)
    return InputFeedingDecoder(config) if config.input_feeding else AttendingDecoder(config)
