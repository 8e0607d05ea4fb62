"""Recurrent cells: an input and a state → the next state.

A cell multiplies the inputs of all steps by W before the first step. What becomes known only within a step (the context
of an attention, the output before) is fed to it beside its state, in the same product. At the end of a tensor's name, X
are gates side by side, and E is a state with what is fed.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor, nn

from heedful.baselines.time_steps import TimeSteps
from heedful.config.baseline_settings import RecurrentConfig

CellState: TypeAlias = tuple[Tensor, ...]
"""Of R rows: first what the cell gives out; of an LSTM also c."""


class Cell(nn.Module):
    """What all cells have."""

    num_parts = 1  # of a state
    W: nn.Linear

    def step(self, input_RX: Tensor, state: CellState, *fed_RE: Tensor) -> CellState:
        """The next state. The input has been multiplied by W."""
        raise NotImplementedError

    def of_state(self) -> list[nn.Linear]:
        """The products whose first columns belong to the state, and whose rows are gates of its width."""
        raise NotImplementedError

    def run(self, x_TD: Tensor, steps: TimeSteps, state: CellState) -> tuple[Tensor, CellState]:
        """All steps of rows in the order of time: what the cell gives out, and the last state of each sentence."""
        outputs, ended = [], []
        for input_RX in self.W(x_TD).split(steps.sizes):
            state, rest = first_rows(state, len(input_RX))
            state = self.step(input_RX, state)
            outputs.append(state[0])
            ended.append(rest)
        last = zip(state, *reversed(ended), strict=True)
        return torch.cat(outputs), tuple(map(torch.cat, last))


def first_rows(state: CellState, count: int) -> tuple[CellState, CellState]:
    """The first rows of a state, and the others: those of sentences that have ended."""
    parts = [part_RD.tensor_split([count]) for part_RD in state]
    return tuple(first for first, _ in parts), tuple(rest for _, rest in parts)


def rows_of(state: CellState, row_N: Tensor) -> CellState:
    """These rows of a state, in this order."""
    return tuple(part_RD.index_select(0, row_N) for part_RD in state)


class LSTM(Cell):
    """i, f, o = σ(W x + U h + b); c' = f ∘ c + i ∘ tanh(W x + U h + b); h' = o ∘ tanh(c'). No peepholes."""

    num_parts = 2

    def __init__(self, num_inputs: int, num_fed: int, width: int) -> None:
        super().__init__()
        self.W = nn.Linear(num_inputs, 4 * width)
        self.U = nn.Linear(width + num_fed, 4 * width, bias=False)

    def step(self, input_RX: Tensor, state: CellState, *fed_RE: Tensor) -> CellState:
        h_RD, c_RD = state
        return lstm(plus_product(input_RX, self.U, h_RD, *fed_RE), c_RD)

    def of_state(self) -> list[nn.Linear]:
        return [self.U]


class FactorisedLSTM(Cell):
    """An LSTM whose matrix for x and h is a product W_2 W_1 through few numbers (Kuchaiev and Ginsburg 2017).

    W and U are the columns of W_1 that belong to x and to h.
    """

    num_parts = 2

    def __init__(self, num_inputs: int, num_fed: int, width: int, rank: int) -> None:
        super().__init__()
        self.W = nn.Linear(num_inputs, rank, bias=False)
        self.U = nn.Linear(width + num_fed, rank, bias=False)
        self.W_2 = nn.Linear(rank, 4 * width)

    def step(self, input_RX: Tensor, state: CellState, *fed_RE: Tensor) -> CellState:
        h_RD, c_RD = state
        return lstm(self.W_2(plus_product(input_RX, self.U, h_RD, *fed_RE)), c_RD)

    def of_state(self) -> list[nn.Linear]:
        return []  # no rows are a gate's


class GRU(Cell):
    """Bahdanau 2015, A.1.1: r, z = σ(W x + U s); s' = (1 − z) ∘ s + z ∘ tanh(W x + U (r ∘ s))."""

    def __init__(self, num_inputs: int, num_fed: int, width: int) -> None:
        super().__init__()
        self.W = nn.Linear(num_inputs, 3 * width)
        self.U_gates = nn.Linear(width + num_fed, 2 * width, bias=False)
        self.U = nn.Linear(width + num_fed, width, bias=False)

    def step(self, input_RX: Tensor, state: CellState, *fed_RE: Tensor) -> CellState:
        (s_RD,) = state
        gates_RX, proposal_RD = input_RX.tensor_split([2 * s_RD.size(1)], dim=1)
        r_RD, z_RD = plus_product(gates_RX, self.U_gates, s_RD, *fed_RE).sigmoid().chunk(2, dim=1)
        proposal_RD = plus_product(proposal_RD, self.U, r_RD * s_RD, *fed_RE).tanh()
        return (torch.lerp(s_RD, proposal_RD, z_RD),)

    def of_state(self) -> list[nn.Linear]:
        return [self.U_gates, self.U]


class ResetAfterGRU(Cell):
    """The GRU of torch and cuDNN: s' = (1 − z) ∘ tanh(W x + r ∘ (U s + b)) + z ∘ s."""

    def __init__(self, num_inputs: int, num_fed: int, width: int) -> None:
        super().__init__()
        self.W = nn.Linear(num_inputs, 3 * width)
        self.U = nn.Linear(width, 3 * width)
        self.C = nn.Linear(num_fed, 3 * width, bias=False) if num_fed else None

    def step(self, input_RX: Tensor, state: CellState, *fed_RE: Tensor) -> CellState:
        (s_RD,) = state
        input_RX = input_RX if self.C is None else plus_product(input_RX, self.C, *fed_RE)
        gates_RX, proposal_RD = input_RX.tensor_split([2 * s_RD.size(1)], dim=1)
        own_gates_RX, own_RD = self.U(s_RD).tensor_split([2 * s_RD.size(1)], dim=1)
        r_RD, z_RD = (gates_RX + own_gates_RX).sigmoid().chunk(2, dim=1)
        return (torch.lerp(torch.addcmul(proposal_RD, r_RD, own_RD).tanh(), s_RD, z_RD),)

    def of_state(self) -> list[nn.Linear]:
        return [self.U]


def plus_product(input_RX: Tensor, product: nn.Linear, *parts_RE: Tensor) -> Tensor:
    """W x + U s, and what is fed in the same product."""
    return torch.addmm(input_RX, torch.cat(parts_RE, dim=1), product.weight.T)


def lstm(gates_RX: Tensor, c_RD: Tensor) -> CellState:
    """The states h and c, from the gates before their σ and tanh."""
    i_RD, f_RD, proposal_RD, o_RD = gates_RX.chunk(4, dim=1)
    c_RD = torch.addcmul(f_RD.sigmoid() * c_RD, i_RD.sigmoid(), proposal_RD.tanh())
    return o_RD.sigmoid() * c_RD.tanh(), c_RD


def new_cell(config: RecurrentConfig, num_inputs: int, num_fed: int = 0) -> Cell:
    """The cell that the settings ask for."""
    sizes = (num_inputs, num_fed, config.d_model)
    if config.cell == "gru":
        return GRU(*sizes) if config.reset == "before" else ResetAfterGRU(*sizes)
    return LSTM(*sizes) if config.factor_rank is None else FactorisedLSTM(*sizes, config.factor_rank)
