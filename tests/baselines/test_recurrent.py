"""Recurrent systems: their cells and attention are those of torch and of their papers, and they learn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from heedful.baselines.recurrent import Encoder, Recurrent
from heedful.baselines.recurrent_cells import GRU, LSTM, Cell, CellState, FactorisedLSTM, ResetAfterGRU
from heedful.baselines.recurrent_decoders import AttendingDecoder
from heedful.baselines.time_steps import time_steps
from heedful.config.baseline_settings import RecurrentConfig
from heedful.config.settings import TrainConfig
from heedful.errors import ConfigError
from heedful.train.batching import make_batch
from heedful.train.gradients import Objective
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.torch_engine import TorchEngine
from tests.baselines.test_families import SOURCES, TARGETS, VOCAB, forced, packed
from tests.memory_shards import shards

D, INPUTS = 6, 5
OFFSETS_N = torch.tensor([0, 3, 8, 9, 13])
STEPS = [[3, 9, 0, 8], [4, 10, 1], [5, 11, 2], [6, 12], [7]]  # the rows of each
SUTSKEVER = {"cell": "lstm", "attention": "none", "num_layers": 2}
LUONG = {"cell": "lstm", "num_layers": 2, "reverse_source": True}


@pytest.fixture(autouse=True)
def in_float64() -> Iterator[None]:
    torch.manual_seed(3)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def model_of(**settings: Any) -> Recurrent:
    """A small model with no weight at zero."""
    model = Recurrent(RecurrentConfig(**{"d_model": D, **settings}), VOCAB)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.eval()


# --------------------------------------------------------------------------------------------------------------- steps


def test_in_the_order_of_time_first_tokens_come_first_those_of_longer_sentences_before_others() -> None:
    steps = time_steps(OFFSETS_N)
    assert [rows.tolist() for rows in steps.row_T.split(steps.sizes)] == STEPS
    assert steps.sentence_N.tolist() == [1, 3, 0, 2]
    assert torch.equal(steps.sentence_N[steps.rank_N], torch.arange(4))


@pytest.mark.parametrize("from_the_end", [False, True])
def test_packed_rows_go_into_the_order_of_time_and_back(from_the_end: bool) -> None:
    steps, x_TD = time_steps(OFFSETS_N, from_the_end=from_the_end), torch.randn(13, D)
    assert torch.equal(steps.packed(steps.by_time(x_TD)), x_TD)


def test_from_the_end_the_last_tokens_come_first() -> None:
    steps = time_steps(OFFSETS_N, from_the_end=True)
    rows = [rows.tolist() for rows in steps.row_T.split(steps.sizes)]
    assert (rows[0], rows[-1]) == ([7, 12, 2, 8], [3])


# --------------------------------------------------------------------------------------------------------------- cells


def gradients(outputs: list[Tensor], inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Those of a sum in which all numbers count differently."""
    total = torch.stack([(x.flatten() * torch.arange(1, x.numel() + 1).cos()).sum() for x in outputs]).sum()
    return torch.autograd.grad(total, inputs)


def compare_with_torch(cell: Cell, weights: list[Tensor], theirs: nn.LSTM | nn.GRU) -> None:
    """Outputs, last states and gradients; `weights` are the cell's in torch's order. Biases that it lacks are zero."""
    their_weights = list(theirs.parameters())
    for number, their in enumerate(their_weights):
        their.data = weights[number].data.clone() if number < len(weights) else torch.zeros_like(their)
    steps, x_TD = time_steps(OFFSETS_N), torch.randn(13, INPUTS, requires_grad=True)
    begin = [torch.randn(4, D, requires_grad=True) for _ in range(cell.num_parts)]
    output_TD, last = cell.run(x_TD, steps, tuple(begin))
    hidden = tuple(part_ND[None] for part_ND in begin)
    found, their_last = theirs(
        PackedSequence(x_TD, torch.tensor(steps.sizes)), hidden if cell.num_parts > 1 else hidden[0]
    )
    mine = [output_TD, *last]
    expected = [found.data, *(part_1ND[0] for part_1ND in (their_last if cell.num_parts > 1 else [their_last]))]
    torch.testing.assert_close(mine, expected)
    torch.testing.assert_close(
        gradients(mine, [x_TD, *begin, *weights]), gradients(expected, [x_TD, *begin, *their_weights[: len(weights)]])
    )


def test_the_lstm_is_torchs() -> None:
    cell = LSTM(INPUTS, 0, D)
    compare_with_torch(cell, [cell.W.weight, cell.U.weight, cell.W.bias], nn.LSTM(INPUTS, D))


def test_the_gru_whose_reset_comes_after_the_product_is_torchs() -> None:
    cell = ResetAfterGRU(INPUTS, 0, D)
    compare_with_torch(cell, [cell.W.weight, cell.U.weight, cell.W.bias, cell.U.bias], nn.GRU(INPUTS, D))


def test_layers_that_read_both_ways_are_torchs() -> None:
    encoder = Encoder(RecurrentConfig(d_model=D, cell="lstm", num_layers=2, dropout=0.0))
    theirs = nn.LSTM(D, D, num_layers=2, bidirectional=True)
    cells = [cell for module in encoder.modules() if isinstance(cell := module, LSTM)]
    weights = [weight for cell in cells for weight in (cell.W.weight, cell.U.weight, cell.W.bias, torch.zeros(4 * D))]
    for their, weight in zip(theirs.parameters(), weights, strict=True):
        their.data = weight.data
    steps, x_TD = time_steps(OFFSETS_N), torch.randn(13, D)
    found, _ = theirs(PackedSequence(steps.by_time(x_TD), torch.tensor(steps.sizes)))
    torch.testing.assert_close(encoder(x_TD, OFFSETS_N)[0], steps.packed(found.data))


@pytest.mark.parametrize("kind", [LSTM, ResetAfterGRU, GRU])
def test_what_is_fed_to_a_cell_counts_like_a_part_of_its_input(kind: type[LSTM | ResetAfterGRU | GRU]) -> None:
    fed_cell, cell = kind(INPUTS, 4, D), kind(INPUTS + 4, 0, D)
    cell.load_state_dict(with_the_fed_columns_in_w(fed_cell))
    x_RD, fed_RE = torch.randn(3, INPUTS), torch.randn(3, 4)
    state = tuple(torch.randn(3, D) for _ in range(cell.num_parts))
    torch.testing.assert_close(
        fed_cell.step(fed_cell.W(x_RD), state, fed_RE), cell.step(cell.W(torch.cat([x_RD, fed_RE], dim=1)), state)
    )


def with_the_fed_columns_in_w(cell: Cell) -> dict[str, Tensor]:
    weights = cell.state_dict()
    fed = [weights.pop("C.weight")] if "C.weight" in weights else []
    for name in [] if fed else [name for name in weights if name.startswith("U")]:
        weights[name], columns = weights[name].tensor_split([D], dim=1)
        fed.append(columns)
    return weights | {"W.weight": torch.cat([weights["W.weight"], torch.cat(fed)], dim=1)}


def test_a_factorised_lstm_is_the_lstm_of_the_product_of_its_factors() -> None:
    factorised, whole = FactorisedLSTM(INPUTS, 2, D, rank=3), LSTM(INPUTS, 2, D)
    whole.W.weight.data = factorised.W_2.weight @ factorised.W.weight
    whole.U.weight.data = factorised.W_2.weight @ factorised.U.weight
    whole.W.bias.data = factorised.W_2.bias.data
    x_RD, fed_RE, state = torch.randn(4, INPUTS), torch.randn(4, 2), (torch.randn(4, D), torch.randn(4, D))
    torch.testing.assert_close(
        factorised.step(factorised.W(x_RD), state, fed_RE), whole.step(whole.W(x_RD), state, fed_RE)
    )


# ------------------------------------------------------------------------------------------------ the papers' equations


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


def bahdanau_gru(cell: GRU, y: Tensor, s: Tensor, c: Tensor) -> Tensor:
    """A.2.2: s_i from E y_{i−1}, s_{i−1} and c_i; an encoder's cell (A.2.1) has no c."""
    (W_r, W_z, W), (b_r, b_z, b) = cell.W.weight.chunk(3), cell.W.bias.chunk(3)
    (U_r, C_r), (U_z, C_z) = (part.tensor_split([D], dim=1) for part in cell.U_gates.weight.chunk(2))
    U, C = cell.U.weight.tensor_split([D], dim=1)
    r = sigmoid(W_r @ y + U_r @ s + C_r @ c + b_r)
    z = sigmoid(W_z @ y + U_z @ s + C_z @ c + b_z)
    proposed = (W @ y + U @ (r * s) + C @ c + b).tanh()
    return (1 - z) * s + z * proposed


def words_of(model: Recurrent, ids: list[int]) -> list[Tensor]:
    return [model.embedding_VD[i] * math.sqrt(D) for i in ids]


def words_before(model: Recurrent, ids: list[int]) -> list[Tensor]:
    """What the decoder reads for the ids and their eos."""
    return [torch.zeros(D), *words_of(model, ids)]


def bahdanau_annotations(cells: nn.ModuleList, source: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """A.2.1: h_j, both directions; and the last state of the one that begins at the end."""
    forward, backward = (cell for cell in cells if isinstance(cell, GRU))
    nothing, s = torch.zeros(0), torch.zeros(D)
    there = [s := bahdanau_gru(forward, x, s, nothing) for x in source]
    s = torch.zeros(D)
    back = [s := bahdanau_gru(backward, x, s, nothing) for x in reversed(source)][::-1]
    return [torch.cat(both) for both in zip(there, back, strict=True)], back[0]


def bahdanau(model: Recurrent, source: list[int], target: list[int]) -> Tensor:
    """Appendix A, word by word: the logits."""
    decoder: Any = model.decoder
    layer: Any = model.encoder.layers[0]
    annotations, first_back = bahdanau_annotations(layer.cells, words_of(model, [*source, 0]))
    s = (layer.bridge.weight @ first_back + layer.bridge.bias).tanh()
    W_a, U_a, v_a = decoder.attention.W.weight, decoder.attention.U.weight, decoder.attention.v_D
    logits = []
    for y in words_before(model, target):
        e = torch.stack([v_a @ (W_a @ s + U_a @ h).tanh() for h in annotations])
        alpha = e.exp() / e.exp().sum()
        c = sum((a * h for a, h in zip(alpha, annotations, strict=True)), torch.zeros(2 * D))
        s = bahdanau_gru(decoder.cells[0], y, s, c)
        U_o, V_o, C_o = decoder.readout.W.weight.split([D, D, 2 * D], dim=1)
        t = U_o @ s + V_o @ y + C_o @ c + decoder.readout.W.bias
        logits.append(model.embedding_VD @ torch.stack([t[k : k + D + 1 : D].max() for k in range(D)]))
    return torch.stack(logits)


def test_bahdanaus_system_is_his_appendix_a() -> None:
    model = model_of()
    for found_TV, source, target in zip(forced(model, SOURCES, TARGETS), SOURCES, TARGETS, strict=True):
        torch.testing.assert_close(found_TV, bahdanau(model, source, target))


def lstm(cell: Cell, x: Tensor, state: CellState) -> CellState:
    assert isinstance(cell, LSTM)
    h, c = state
    i, f, proposed, o = (cell.W.weight @ x + cell.W.bias + cell.U.weight @ h).chunk(4)
    c = sigmoid(f) * c + sigmoid(i) * proposed.tanh()
    return sigmoid(o) * c.tanh(), c


def up_the_layers(cells: list[Cell], x: Tensor, states: list[CellState], fed: Tensor) -> list[CellState]:
    new = []
    for number, (cell, (h, c)) in enumerate(zip(cells, states, strict=True)):
        if number == 0:  # U has columns for what is fed
            h_and_fed = torch.cat([h, fed])
            new.append(lstm(cell, x, (h_and_fed, c)))
        else:
            new.append(lstm(cell, new[-1][0], (h, c)))
    return new


def luong(model: Recurrent, source: list[int], target: list[int]) -> Tensor:
    """Sections 3.1 and 3.3, word by word, with the source read from its end: the logits."""
    decoder: Any = model.decoder
    layers: list[Any] = list(model.encoder.layers)
    nothing, encoder_cells = torch.zeros(0), [layer.cells[0] for layer in layers]
    states: list[CellState] = [(torch.zeros(D), torch.zeros(D))] * 2
    annotations = []
    for x in reversed(words_of(model, [*source, 0])):
        states = up_the_layers(encoder_cells, x, states, nothing)
        annotations.append(states[-1][0])
    W_a = decoder.attention.W.weight if model.config.attention == "general" else torch.eye(D)
    attentional, logits = torch.zeros(D), []
    for y in words_before(model, target):
        states = up_the_layers(decoder.cells, y, states, attentional if model.config.input_feeding else nothing)
        h = states[-1][0]
        score = torch.stack([h @ W_a @ h_s for h_s in annotations])
        alpha = score.exp() / score.exp().sum()
        c = sum((a * h_s for a, h_s in zip(alpha, annotations, strict=True)), torch.zeros(D))
        attentional = (decoder.readout.W.weight @ torch.cat([c, h])).tanh()
        logits.append(model.embedding_VD @ attentional)
    return torch.stack(logits)


@pytest.mark.parametrize("attention", ["dot", "general"])
@pytest.mark.parametrize("input_feeding", [False, True])
def test_luongs_systems_are_his_equations(attention: str, input_feeding: bool) -> None:
    model = model_of(**LUONG, attention=attention, input_feeding=input_feeding)
    for found_TV, source, target in zip(forced(model, SOURCES, TARGETS), SOURCES, TARGETS, strict=True):
        torch.testing.assert_close(found_TV, luong(model, source, target))


def test_without_attention_the_decoder_knows_of_the_source_the_last_states_alone() -> None:
    model = model_of(**SUTSKEVER)
    source, target_in = packed(SOURCES, TARGETS)
    memory = model.encode(source)
    before_TD = model.decode(target_in, memory)
    memory.hidden_SD.normal_()
    assert torch.equal(model.decode(target_in, memory), before_TD)
    for h_ND, c_ND in memory.states:
        c_ND.normal_()
        assert not torch.allclose(model.decode(target_in, memory), before_TD)
        assert h_ND.shape == (3, D)
    assert torch.equal(model.decoder.readout(before_TD, before_TD), before_TD)


# ------------------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize("settings", [SUTSKEVER, LUONG | {"attention": "dot"}], ids=["none", "dot"])
def test_a_source_that_is_reversed_is_read_from_its_end(settings: dict[str, Any]) -> None:
    backwards, forwards = (model_of(**settings | {"reverse_source": each}) for each in (True, False))
    forwards.load_state_dict(backwards.state_dict())
    ids = [*SOURCES[0], 0]
    (found_TV,) = forced(backwards, SOURCES[:1], TARGETS[:1])
    source, target_in = packed([ids[:0:-1]], TARGETS[:1])
    source.tokens_T[:] = torch.tensor(ids[::-1])
    torch.testing.assert_close(found_TV, forwards(source, target_in))
    assert not torch.allclose(found_TV, forced(forwards, SOURCES[:1], TARGETS[:1])[0])


def test_unless_told_the_settings_are_those_of_the_paper_that_the_attention_is_from() -> None:
    followed = {
        attention: (config.is_bidirectional, config.reverses_source, config.readout_kind)
        for attention in ("additive", "dot", "general", "none")
        if (config := RecurrentConfig(attention=attention, cell="lstm"))
    }
    assert followed == {
        "additive": (True, False, "maxout"),
        "dot": (False, False, "tanh"),
        "general": (False, False, "tanh"),
        "none": (False, True, "state"),
    }
    assert RecurrentConfig().spelled_out == RecurrentConfig(bidirectional=True, reverse_source=False, readout="maxout")


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"factor_rank": 8}, r"model.factor_rank = 8 .* model.cell = lstm"),
        ({"cell": "lstm", "reset": "after"}, r"model.reset = after .* model.cell = gru"),
        ({"attention": "none", "bidirectional": True}, r"model.bidirectional = true .* model.attention = none"),
        ({"attention": "dot", "bidirectional": True}, r"model.attention = dot .* general"),
        ({"reverse_source": True}, r"model.reverse_source = true .* model.bidirectional = true"),
        ({"input_feeding": True}, r"model.input_feeding = true .* dot or general, not additive"),
        ({"attention": "none", "input_feeding": True}, r"model.input_feeding = true .* dot or general, not none"),
        ({"attention": "dot", "readout": "state"}, r"model.readout = state .* model.attention = dot"),
    ],
    ids=str,
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ConfigError, match=refusal):
        RecurrentConfig(**settings)


@pytest.mark.parametrize(
    "settings", [{}, LUONG | {"attention": "general"}, LUONG | {"attention": "dot", "input_feeding": True}], ids=str
)
def test_the_attention_recorded_of_a_batch_is_that_of_each_sentence_and_nothing_between_sentences(
    settings: dict[str, Any],
) -> None:
    model = model_of(**settings)
    (together_TS,) = recorded(model, SOURCES, TARGETS)
    alone = [recorded(model, [source], [target])[0] for source, target in zip(SOURCES, TARGETS, strict=True)]
    torch.testing.assert_close(together_TS, torch.block_diag(*alone))


@torch.no_grad()
def recorded(model: Recurrent, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
    with model.recorded_attention() as attention:
        model(*packed(sources, targets))
    assert isinstance(model.decoder, AttendingDecoder)
    assert model.decoder.recorder is None
    (recorder,) = attention["cross"]
    (weights_1TS,) = recorder.weights
    return weights_1TS


@pytest.mark.parametrize("settings", [{}, SUTSKEVER, LUONG | {"attention": "general"}], ids=str)
def test_in_mixed_precision_all_but_the_logits_has_the_bits_of_float32(settings: dict[str, Any]) -> None:
    model = model_of(**settings).float()
    source, target_in = packed(SOURCES, TARGETS)
    plain_TD = model.decode(target_in, model.encode(source))
    with torch.autocast("cpu", torch.bfloat16):
        mixed_TD = model.decode(target_in, model.encode(source))
        assert model.logits(mixed_TD).dtype == torch.bfloat16
    assert torch.equal(mixed_TD, plain_TD)


@pytest.mark.parametrize("settings", [{}, LUONG | {"attention": "general", "input_feeding": True}])
def test_in_mixed_precision_the_states_of_a_search_have_the_bits_of_float32(settings: dict[str, Any]) -> None:
    model = model_of(**settings).float()
    decoder = model.new_decoder()
    states: list[Any] = []
    for enabled in (False, True):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            states.append(decoder.empty(3, 1))
            states[-1].admit(model.encode(packed(SOURCES, TARGETS)[0]), [0, 1, 2], longest=7)
            for ids in ([0, 0, 0], [5, 6, 7]):
                decoder.step(torch.tensor(ids), states[-1])
    plain, mixed = states
    assert all(torch.equal(mixed.hypothesis[name], value) for name, value in plain.hypothesis.items())


def test_a_new_model_is_close_to_knowing_nothing_and_its_states_neither_grow_nor_fade() -> None:
    model = Recurrent(RecurrentConfig(d_model=64), 1000)
    ids = np.random.default_rng(1).integers(2, 1000, (2, 20, 12)).tolist()
    logits_TV = torch.cat(forced(model.eval(), *ids))
    assert (logits_TV.logsumexp(dim=-1) - logits_TV.mean(dim=-1)).mean() < math.log(1000) + 0.5
    for cell in (module for module in model.modules() if isinstance(module, Cell)):
        for gate in (gate for product in cell.of_state() for gate in product.weight.split(64)):
            torch.testing.assert_close(gate[:, :64] @ gate[:, :64].T, torch.eye(64))


# ------------------------------------------------------------------------------------------------------------ learning


def share_learned(settings: dict[str, Any], *, steps: int, longest: int, reverse: bool) -> float:
    """The share of held-out sentences that a model copies, or reverses, without a mistake."""
    torch.set_default_dtype(torch.float32)
    rng = np.random.default_rng(1)
    sources = [rng.integers(2, 12, rng.integers(1, longest + 1)).tolist() for _ in range(64 * steps + 100)]
    pairs = shards([(source, source[::-1] if reverse else source) for source in sources])
    model = Recurrent(RecurrentConfig(**{"d_model": 48, "dropout": 0.0, **settings}), 12)
    objective = Objective(model, TrainConfig(label_smoothing=0.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(steps):
        batch = make_batch(pairs, np.arange(64 * step, 64 * step + 64))
        optimizer.zero_grad()
        (objective(batch)[0] / batch.num_target_tokens).backward()
        optimizer.step()
    held_out = sources[-100:]
    found = TorchEngine(model.eval()).translate([Request(source) for source in held_out], SearchOptions(beam_size=1))
    right = [
        list(best.ids) == (source[::-1] if reverse else source) for (best,), source in zip(found, held_out, strict=True)
    ]
    return float(np.mean(right))


@pytest.mark.slow
def test_bahdanaus_system_learns_to_reverse() -> None:
    assert share_learned({}, steps=120, longest=8, reverse=True) > 0.8


@pytest.mark.slow
def test_sutskevers_system_learns_to_copy() -> None:
    assert share_learned({"cell": "lstm", "attention": "none"}, steps=250, longest=4, reverse=False) > 0.8
