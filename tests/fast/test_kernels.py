"""Every kernel computes what its plain twin computes, forward and backward, on fresh random inputs.

On a machine without a GPU the kernels run through Triton's interpreter, in a process of their own: it must be switched
on before Triton is loaded. On a GPU they run as they are, also in bfloat16 and under the compiler.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from heedful.config.settings import ModelConfig
from heedful.config.supported_settings import WIDEST_HEAD
from heedful.fast.cuda.packing import fill_pairs, num_pair_numbers, view_pairs
from heedful.fast.cuda.tiles import StaticShape, Tiles, make_tiles
from heedful.model.attention import plain_attention
from heedful.model.dropout import Dropout
from heedful.model.layout import Layout, Lengths
from heedful.model.packed import NO_TARGET, Packed, pack_source, pack_target, positions_of, shift_right
from heedful.model.transformer import Transformer
from heedful.train.loss import smoothed_cross_entropy
from heedful.train.r_drop import twin_divergence, twin_rows
from tests.interpreted import (
    DEVICE,
    INTERPRETED,
    assert_holds_in_the_interpreter,
    on_a_gpu,
    on_kernels,
    without_kernels,
)

pytest.importorskip("triton")

# Relative errors, by the norm of the difference. bfloat16 has 8 bits; a reference of the same inputs has more.
TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 1.5e-2}
DTYPES = [torch.float32, torch.float64] if DEVICE.type == "cpu" else [torch.float32, torch.bfloat16]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@pytest.mark.slow
@without_kernels
def test_the_kernels_agree_with_their_twins_in_the_interpreter() -> None:
    assert_holds_in_the_interpreter(__file__)


@pytest.fixture(autouse=True)
def fresh(seeded: None) -> None:
    """Other numbers in each run; where a test fails, the seed is told."""
    seed = int(np.random.default_rng().integers(2**31))
    print(f"torch.manual_seed({seed})")
    torch.manual_seed(seed)


def _fresh() -> np.random.Generator:
    return np.random.default_rng(torch.initial_seed())


def _normal(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64).to(DEVICE, dtype).requires_grad_()


def _assert_close(actual: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    assert bool(actual.isfinite().all())
    error = float((actual.detach().double() - expected.detach()).norm() / expected.detach().norm().clamp(min=1e-30))
    assert error < TOLERANCE[dtype], f"relative error {error:.2e}"


def _assert_twins(
    kernel: Callable[..., Tensor], twin: Callable[..., Tensor], inputs: tuple[Tensor, ...], dtype: torch.dtype
) -> None:
    """Equal outputs, and equal gradients for a random gradient of the output; the twin computes in float64."""
    doubles = tuple(x.detach().double().requires_grad_() for x in inputs)
    actual, expected = kernel(*inputs), twin(*doubles)
    _assert_close(actual, expected, dtype)
    grad = _normal(*actual.shape, dtype=dtype).detach() if actual.dim() else torch.ones_like(actual)
    grads = torch.autograd.grad(actual, inputs, grad)
    expected_grads = torch.autograd.grad(expected, doubles, grad.double())
    for g, e in zip(grads, expected_grads, strict=True):
        _assert_close(g, e, dtype)


# ---------------------------------------------------------------------------------------------------------- attention

SHAPE = StaticShape(rows=256, sentences=16, longest=256)
LENGTHS = {
    "short": ([5, 1, 17, 30, 28, 9, 64, 2], [7, 1, 15, 33, 20, 14, 60, 3]),
    "long": ([1, 65, 30, 100, 40], [70, 2, 30, 64, 66]),
    "one token": ([1], [1]),
    "no row left over": ([150, 64, 42], [64, 42, 150]),
}


def _lengths(name: str) -> tuple[Lengths, Lengths]:
    queries, keys = LENGTHS[name]
    return np.array(queries, dtype=np.int64), np.array(keys, dtype=np.int64)


def _check_attention(
    lengths: tuple[Lengths, Lengths], *, kind: str, sizes: tuple[int, int, int], dtype: torch.dtype
) -> None:
    from heedful.fast.cuda.attention import tiled_cross_attention, tiled_self_attention

    (num_heads, d_k, d_v), (queries, keys) = sizes, lengths
    keys = keys if kind == "cross" else queries
    tiles = make_tiles(queries, keys, causal=kind == "causal", shape=SHAPE).to(DEVICE)
    widths = [num_heads * d_k, num_heads * (d_k + d_v)] if kind == "cross" else [num_heads * (2 * d_k + d_v)]
    products = tuple(_normal(SHAPE.rows, width, dtype=dtype) for width in widths)

    def kernel(*products: Tensor) -> Tensor:
        if kind == "cross":
            return tiled_cross_attention(products[0], products[1], tiles, num_heads=num_heads)
        return tiled_self_attention(products[0], tiles, num_heads=num_heads, d_k=d_k)

    def twin(*products: Tensor) -> Tensor:
        return _plain_heads(products, tiles, num_heads, d_k)

    _assert_twins(kernel, twin, products, dtype)
    _assert_zeros_behind(kernel, products, int(queries.sum()), int(keys.sum()))


def _plain_heads(products: tuple[Tensor, ...], tiles: Tiles, num_heads: int, d_k: int) -> Tensor:
    """Equation 1 for queries, keys and values that lie side by side, in one tensor or in two."""
    width = num_heads * d_k
    query, key, value = (
        part.unflatten(-1, (num_heads, -1)) for part in torch.cat(products, dim=1).tensor_split((width, 2 * width), 1)
    )
    return plain_attention(query, key, value, tiles)[0].flatten(-2)


def _assert_zeros_behind(
    kernel: Callable[..., Tensor], products: tuple[Tensor, ...], num_queries: int, num_keys: int
) -> None:
    output = kernel(*products)
    grads = torch.autograd.grad(output, products, torch.randn_like(output))
    assert not bool(output[num_queries:].any())
    for grad, used in zip(grads, (num_queries, num_keys), strict=False):
        assert not bool(grad[used:].any())


@on_kernels
@dtypes
@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
@pytest.mark.parametrize("name", LENGTHS)
def test_attention_is_equation_1(name: str, kind: str, dtype: torch.dtype) -> None:
    if INTERPRETED and dtype == torch.float32 and name != "long":
        pytest.skip("the interpreter is slow, and float64 says more")
    _check_attention(_lengths(name), kind=kind, sizes=(2, 16, 16), dtype=dtype)


@on_kernels
@pytest.mark.parametrize("kind", ["causal", "cross"])
@pytest.mark.parametrize("sizes", [(1, 24, 16), (3, 5, 40), (2, 64, 32), (1, WIDEST_HEAD, WIDEST_HEAD)], ids=str)
def test_attention_takes_any_width_of_a_head(sizes: tuple[int, int, int], kind: str) -> None:
    _check_attention(_lengths("short"), kind=kind, sizes=sizes, dtype=DTYPES[-1])


@on_kernels
@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
def test_attention_holds_for_random_lengths(kind: str) -> None:
    rng = _fresh()
    queries = rng.lognormal(3, 0.9, 16).round().clip(1, 200).astype(np.int64)
    keys = rng.lognormal(3, 0.9, 16).round().clip(1, 200).astype(np.int64)
    fit = (np.cumsum(queries) <= SHAPE.rows) & (np.cumsum(keys) <= SHAPE.rows)
    _check_attention((queries[fit], keys[fit]), kind=kind, sizes=(2, 16, 16), dtype=DTYPES[-1])


@on_kernels
@pytest.mark.parametrize("causal", [False, True])
def test_tiles_attend_by_equation_1(causal: bool) -> None:
    """As a layout, for whoever holds queries, keys and values apart."""
    queries, keys = _lengths("short")
    tiles = make_tiles(queries, queries if causal else keys, causal=causal, shape=SHAPE).to(DEVICE)
    parts = tuple(_normal(SHAPE.rows, 2, width, dtype=DTYPES[-1]) for width in (8, 8, 16))

    def twin(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return plain_attention(query, key, value, tiles)[0]

    _assert_twins(tiles.attend, twin, parts, DTYPES[-1])


@on_a_gpu
def test_attention_is_the_same_every_time() -> None:
    from heedful.fast.cuda.attention import tiled_self_attention

    queries, _ = _lengths("long")
    tiles = make_tiles(queries, queries, causal=True, shape=SHAPE).to(DEVICE)
    projected = _normal(SHAPE.rows, 3 * 64, dtype=torch.bfloat16)
    grad = torch.randn(SHAPE.rows, 64, device=DEVICE, dtype=torch.bfloat16)

    def once() -> tuple[Tensor, Tensor]:
        output = tiled_self_attention(projected, tiles, num_heads=1, d_k=64)
        return output, torch.autograd.grad(output, projected, grad)[0]

    first = once()
    assert all(torch.equal(a, b) for _ in range(20) for a, b in zip(first, once(), strict=True))


# ------------------------------------------------------------------------------------------------------- add and norm


def _seed(value: int = 20170612) -> Tensor:
    return torch.tensor([value], device=DEVICE)


def _mask(rows: int, width: int, seed_1: Tensor, dropout: float) -> Tensor:
    """What dropout makes of ones: 0, or the factor of what is kept."""
    from heedful.fast.cuda.add_norm import seeded_dropout

    ones = torch.ones(rows, width, device=DEVICE, dtype=torch.float64)
    return seeded_dropout(ones, seed_1=seed_1, dropout=dropout)


@on_kernels
@dtypes
@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.4])
@pytest.mark.parametrize(("rows", "width"), [(1, 8), (37, 24), (150, 128)])
def test_add_norm_is_layer_norm_of_the_sum(
    rows: int, width: int, dropout: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedful.fast.cuda import add_norm as module
    from heedful.fast.cuda.add_norm import add_norm

    monkeypatch.setattr(module, "BACKWARD_PROGRAMS", 2)  # each has several blocks of rows
    x, y = _normal(rows, width, dtype=dtype), _normal(rows, width, dtype=dtype)
    scale, shift = (_normal(width, dtype=torch.float32 if dtype == torch.bfloat16 else dtype) for _ in range(2))
    mask = _mask(rows, width, _seed(), dropout) if dropout else torch.ones((), device=DEVICE)

    def kernel(x: Tensor, y: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return add_norm(x, y, scale, shift, seed_1=_seed() if dropout else None, dropout=dropout)

    def twin(x: Tensor, y: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return F.layer_norm(x + y * mask, (width,), scale, shift, 1e-5)

    _assert_twins(kernel, twin, (x, y, scale, shift), dtype)


@on_kernels
@dtypes
def test_an_output_that_is_used_twice_gets_the_gradients_of_both_uses(dtype: torch.dtype) -> None:
    """As in figure 1: by the next sub-layer and by the residual connection around it, in which a third use may be."""
    from heedful.fast.cuda.add_norm import add_norm

    inputs = tuple(_normal(37, 24, dtype=dtype) for _ in range(2))
    scale, shift = (_normal(24, dtype=torch.float32 if dtype == torch.bfloat16 else dtype) for _ in range(2))

    def kernel(x: Tensor, y: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        for factor in (1.0, 2.0, 3.0):
            x = add_norm(x, torch.sigmoid(factor * x) * y, scale, shift, seed_1=None, dropout=0.0)
        return x + x.square()

    def twin(x: Tensor, y: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        for factor in (1.0, 2.0, 3.0):
            x = F.layer_norm(x + torch.sigmoid(factor * x) * y, (24,), scale, shift, 1e-5)
        return x + x.square()

    _assert_twins(kernel, twin, (*inputs, scale, shift), dtype)


@on_kernels
def test_an_output_is_let_go_with_its_last_use() -> None:
    """Without help from the garbage collector: what a step leaves behind on a GPU is gigabytes."""
    from heedful.fast.cuda.add_norm import add_norm

    x, scale, shift = _normal(4, 8, dtype=torch.float32), torch.ones(8, device=DEVICE), torch.zeros(8, device=DEVICE)
    gc.disable()
    try:
        output = add_norm(x, x, scale, shift, seed_1=None, dropout=0.0)
        output = add_norm(output, output, scale, shift, seed_1=None, dropout=0.0)
        kept: list[weakref.ref[Any]] = [weakref.ref(output), weakref.ref(output.grad_fn)]
        output.sum().backward()
        del output
        assert [reference() for reference in kept] == [None, None]
    finally:
        gc.enable()


@on_kernels
def test_dropout_drops_its_share_everywhere_and_keeps_the_mean() -> None:
    mask = _mask(256, 64, _seed(), 0.3)
    deviation = (0.3 * 0.7 / 256) ** 0.5
    assert abs(float((mask == 0).float().mean()) - 0.3) < 5 * deviation / 8
    assert float(((mask == 0).float().mean(dim=0) - 0.3).abs().max()) < 5 * deviation
    assert torch.unique(mask).tolist() == pytest.approx([0.0, 1 / 0.7], rel=1e-4)


@on_kernels
def test_masks_of_different_seeds_rows_and_columns_are_unrelated() -> None:
    masks = [(_mask(64, 64, _seed(value), 0.5) == 0).float() for value in (1, 2, 2**32 + 1)]
    a, b, c = masks
    for one, other in [(a, b), (a, c), (a[1:], a[:-1]), (a[:, 1:], a[:, :-1]), (a, a.T)]:
        assert abs(float((one == other).float().mean()) - 0.5) < 5 * 0.5 / 64**1
    assert torch.equal(a, (_mask(64, 64, _seed(1), 0.5) == 0).float())


@on_kernels
def test_a_new_number_in_the_seed_tensor_gives_a_new_mask() -> None:
    from heedful.fast.cuda.modules import SeededDropout, dropout_places, use_kernels

    seeds = torch.tensor([7, 7], device=DEVICE)
    places = torch.nn.Sequential(Dropout(0.5), Dropout(0.5))
    use_kernels(places, seeds)
    x = torch.ones(16, 16, device=DEVICE)
    first, second = (place(x) for place in dropout_places(places))
    assert torch.equal(first, second)
    seeds[1] = 8
    first_again, second_again = (place(x) for place in dropout_places(places))
    assert torch.equal(first, first_again)
    assert not torch.equal(second, second_again)
    place = places[0]
    assert isinstance(place, SeededDropout)
    place.seed_offset = 1
    assert not torch.equal(first, place(x))
    assert torch.equal(places.eval()(x), x)


@on_kernels
def test_source_and_target_embeddings_have_masks_of_their_own() -> None:
    from heedful.fast.cuda.modules import use_kernels

    embedding = Transformer(ModelConfig(d_model=64, num_layers=1, num_heads=4, dropout=0.5), 30).embedding.to(DEVICE)
    use_kernels(embedding, torch.tensor([7], device=DEVICE))
    tokens_T, positions_T = torch.randint(0, 30, (64,), device=DEVICE), torch.arange(1, 65, device=DEVICE)
    source_TD, target_TD = (embed(tokens_T, positions_T, 65) for embed in (embedding.source, embedding.target))
    kept_TD = (source_TD != 0) & (target_TD != 0)
    assert torch.equal(source_TD[kept_TD], target_TD[kept_TD]), "beside the masks they are equal here"
    assert abs(float(kept_TD.float().mean()) - 0.25) < 5 * (0.25 * 0.75) ** 0.5 / 64


# ------------------------------------------------------------------------------------------------------- feed-forward


@on_kernels
@dtypes
@pytest.mark.parametrize(("rows", "d_model", "d_ff"), [(130, 24, 200), (16, 64, 128), (9, 136, 16), (1, 8, 16)])
def test_feed_forward_is_equation_2(rows: int, d_model: int, d_ff: int, dtype: torch.dtype) -> None:
    from heedful.fast.cuda.feed_forward import feed_forward

    shapes = ((rows, d_model), (d_ff, d_model), (d_ff,), (d_model, d_ff), (d_model,))

    def twin(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> Tensor:
        return F.linear(F.relu(F.linear(x, W_1, b_1)), W_2, b_2)

    inputs = tuple(_normal(*shape, dtype=dtype) for shape in shapes)
    while _nearest_to_zero(*inputs[:3]) < 2e-5:  # there rounding decides whether a gradient passes max(0, ·)
        inputs = tuple(_normal(*shape, dtype=dtype) for shape in shapes)
    _assert_twins(feed_forward, twin, inputs, dtype)


def _nearest_to_zero(x: Tensor, W_1: Tensor, b_1: Tensor) -> float:
    with torch.no_grad():
        return float(F.linear(x.double(), W_1.double(), b_1.double()).abs().min())


@on_kernels
@pytest.mark.parametrize(("rows", "width"), [(1, 3), (700, 40), (2100, 9)])
def test_sums_over_rows_are_those_of_torch(rows: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.fast.cuda import sums
    from heedful.fast.cuda.sums import column_sums, sum_rows

    monkeypatch.setattr(sums, "PROGRAMS", 5)  # each has several blocks of rows
    x = _normal(rows, width, dtype=torch.float64).detach()
    _assert_close(column_sums(x), x.sum(dim=0), torch.float64)
    _assert_close(sum_rows(x), x.sum(dim=0), torch.float64)


# ------------------------------------------------------------------------------------------------------ cross-entropy


@on_kernels
@dtypes
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "words"), [(24, 72), (5, 8200), (1, 9)])
def test_the_loss_is_that_of_the_logits(
    rows: int, words: int, label_smoothing: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedful.fast.cuda import cross_entropy

    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", 10 * words * 8)  # some chunks and a rest
    hidden = _normal(rows, 16, dtype=dtype)
    weight = (_normal(words, 16, dtype=dtype).detach() / 4).requires_grad_()  # logits of deviation 1, as at the start
    target = torch.randint(0, words, (rows,), device=DEVICE)
    target[1::5] = -100

    def kernel(hidden: Tensor, weight: Tensor) -> Tensor:
        return cross_entropy.projected_cross_entropy(hidden, weight, target, label_smoothing=label_smoothing)[0] / 3

    def twin(hidden: Tensor, weight: Tensor) -> Tensor:
        logits = F.linear(hidden, weight)
        return F.cross_entropy(logits, target, label_smoothing=label_smoothing, reduction="sum") / 3

    _assert_twins(kernel, twin, (hidden, weight), dtype)
    with torch.no_grad():
        sums = cross_entropy.projected_cross_entropy(hidden, weight, target, label_smoothing=label_smoothing)
    plain = smoothed_cross_entropy(F.linear(hidden.double(), weight.double()), target, label_smoothing)
    _assert_close(sums[0], plain.smoothed, dtype)
    _assert_close(sums[1], plain.negative_log_likelihood, dtype)


@on_kernels
@pytest.mark.parametrize(("rows", "words", "label_smoothing"), [(23, 40, 0.1), (12, 9000, 0.0)])
@dtypes
def test_the_loss_of_twins_is_that_of_the_logits(
    rows: int, words: int, label_smoothing: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedful.fast.cuda import cross_entropy
    from heedful.fast.cuda.r_drop_loss import projected_twin_loss

    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", 5 * words * 8)  # some chunks and a rest
    hidden = _normal(rows, 16, dtype=dtype)
    weight = (_normal(words, 16, dtype=dtype).detach() / 4).requires_grad_()
    target = torch.randint(0, words, (rows,), device=DEVICE)
    target[rows // 2 * 2 - 2 :] = NO_TARGET
    twin_T = twin_rows(target)

    def kernel(hidden: Tensor, weight: Tensor) -> Tensor:
        settings = {"label_smoothing": label_smoothing, "r_drop": 3.0}
        return projected_twin_loss(hidden, weight, target, twin_T, **settings)[0] / 3

    def twin(hidden: Tensor, weight: Tensor) -> Tensor:
        logits = F.linear(hidden, weight)
        smoothed = smoothed_cross_entropy(logits, target, label_smoothing).smoothed
        return (smoothed + 3.0 * twin_divergence(logits, target)) / 3

    _assert_twins(kernel, twin, (hidden, weight), dtype)
    with torch.no_grad():
        sums = projected_twin_loss(hidden, weight, target, twin_T, label_smoothing=label_smoothing, r_drop=3.0)
    plain = smoothed_cross_entropy(F.linear(hidden.double(), weight.double()), target, label_smoothing)
    _assert_close(sums[1], plain.smoothed, dtype)
    _assert_close(sums[2], plain.negative_log_likelihood, dtype)


@on_kernels
def test_rows_without_a_target_have_no_gradient() -> None:
    from heedful.fast.cuda.cross_entropy import projected_cross_entropy

    hidden, weight = _normal(6, 8, dtype=torch.float32), _normal(16, 8, dtype=torch.float32)
    target = torch.tensor([3, -100, 5, -100, -100, 0], device=DEVICE)
    loss, _ = projected_cross_entropy(hidden, weight, target, label_smoothing=0.1)
    (grad,) = torch.autograd.grad(loss, hidden)
    assert grad.any(dim=1).tolist() == (target >= 0).tolist()


# ---------------------------------------------------------------------------------------------------- the whole model


def _model(dtype: torch.dtype) -> Transformer:
    config = ModelConfig(d_model=32, d_ff=48, num_layers=1, num_heads=2, dropout=0.0)
    return Transformer(config, vocab_size=40).to(DEVICE, dtype)


def _pairs() -> tuple[StaticShape, tuple[np.ndarray, Lengths, np.ndarray, Lengths]]:
    source_lengths, target_lengths = np.array([9, 3, 70, 20]), np.array([5, 8, 66, 31])
    rng = _fresh()
    source, target = rng.integers(0, 40, source_lengths.sum()), rng.integers(0, 40, target_lengths.sum())
    shape = StaticShape(rows=128, sentences=8, longest=80)
    return shape, (source, source_lengths, target, target_lengths)


def _loss_and_grads(model: Transformer, source: Packed, target_in: Packed, target_out: Tensor) -> list[Tensor]:
    logits = model(source, target_in)
    loss = smoothed_cross_entropy(logits, target_out.long(), 0.1).smoothed
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]


@on_kernels
def test_a_model_on_tiles_is_the_model_on_groups() -> None:
    """One array of numbers, padded, and the kernels; against separate tensors, no padding, and torch's attention."""
    from heedful.fast.cuda.modules import dropout_places, use_kernels

    shape, pairs = _pairs()
    source_ids, source_lengths, target_ids, target_lengths = pairs
    model = _model(torch.float64 if DEVICE.type == "cpu" else torch.float32)
    source = pack_source(source_ids, source_lengths).to(DEVICE)
    target_in = pack_target(shift_right(target_ids), target_lengths, source_lengths).to(DEVICE)
    expected = _loss_and_grads(model, source, target_in, torch.from_numpy(target_ids).to(DEVICE))

    use_kernels(model, torch.zeros(len(dropout_places(model)), dtype=torch.int64, device=DEVICE))
    numbers = np.full(num_pair_numbers(shape), 12345, dtype=np.int32)
    fill_pairs(numbers, pairs[:2], pairs[2:], shape)
    actual = _loss_and_grads(model, *view_pairs(torch.from_numpy(numbers).to(DEVICE), shape))
    for a, e in zip(actual, expected, strict=True):
        assert torch.allclose(
            a, e, rtol=1e-9 if DEVICE.type == "cpu" else 1e-3, atol=1e-9 if DEVICE.type == "cpu" else 1e-4
        )


def _assert_padded(rows_T: Tensor, values: np.ndarray, padding: int) -> None:
    assert rows_T.tolist() == values.tolist() + [padding] * (len(rows_T) - len(values))


def _assert_tiles(layout: Layout | None, queries: Lengths, keys: Lengths, *, causal: bool, shape: StaticShape) -> None:
    assert isinstance(layout, Tiles)
    assert layout.causal == causal
    assert torch.equal(layout.numbers_I, make_tiles(queries, keys, causal=causal, shape=shape).numbers_I)


@on_kernels
def test_a_batch_in_one_array_has_the_plain_rows_padded_and_the_tiles_of_its_lengths() -> None:
    shape, pairs = _pairs()
    source_ids, source_lengths, target_ids, target_lengths = pairs
    numbers = np.full(num_pair_numbers(shape), 12345, dtype=np.int32)
    fill_pairs(numbers, pairs[:2], pairs[2:], shape)
    source, target_in, target_out = view_pairs(torch.from_numpy(numbers), shape)
    assert len(source.tokens_T) == len(target_in.tokens_T) == len(target_out) == shape.rows
    _assert_padded(target_out, target_ids, NO_TARGET)
    for packed, ids, lengths in [
        (source, source_ids, source_lengths),
        (target_in, shift_right(target_ids), target_lengths),
    ]:
        _assert_padded(packed.tokens_T, ids, 0)
        _assert_padded(packed.positions_T, positions_of(lengths), 0)
        assert packed.longest == 80
    _assert_tiles(source.self_layout, source_lengths, source_lengths, causal=False, shape=shape)
    _assert_tiles(target_in.self_layout, target_lengths, target_lengths, causal=True, shape=shape)
    _assert_tiles(target_in.cross_layout, target_lengths, source_lengths, causal=False, shape=shape)
    assert source.cross_layout is None
