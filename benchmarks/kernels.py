"""The CUDA kernels against their plain twins, their peers and the GPU's ceilings; then a whole training step.

    python -m benchmarks.kernels [--parts check,attention,loss,norm,feed_forward,step] [--models base,big] [--profile]
        [--keep]

Correctness comes first: relative errors against float64. Times of kernels are medians over replays of a captured CUDA
graph, in which launches cost nothing; a copy or product measured in the same run is the ceiling. A step is what
`heedful train` does on the GPU: a fresh batch from pinned memory, forward, backward, the norm of the gradient, Adam.
Tokens are random, with the lengths of real sentences (log-normal, mean 28).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.command import keep, keeping_parser, names, need_gpu, run
from heedful.config.settings import ModelConfig, TrainConfig
from heedful.fast.cuda.packing import fill_pairs, num_pair_numbers
from heedful.fast.cuda.tiles import StaticShape, Tiles, make_tiles
from heedful.fast.cuda.training_step import CudaStep
from heedful.model.attention import plain_attention
from heedful.model.layout import Lengths
from heedful.model.parameter_count import count, shapes_of
from heedful.model.transformer import Transformer

Figures: TypeAlias = dict[str, Any]
GPU = torch.device("cuda")
ADAM_BETAS, ADAM_EPS = (0.9, 0.98), 1e-9
NUM_BATCHES = 8  # different ones, taken in turn


@dataclass(frozen=True)
class Size:
    """A model and its batch."""

    config: ModelConfig
    vocab_size: int
    tokens: int
    rows: int  # tokens, rounded up to whole tiles of the matrix products


SIZES = {
    "base": Size(ModelConfig(), 37_000, 25_000, 25_088),
    "big": Size(ModelConfig(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3), 37_000, 25_000, 25_088),
    "small": Size(ModelConfig(d_model=256, d_ff=1024, num_layers=4, num_heads=4, dropout=0.3), 10_000, 8192, 8192),
}


def median_us(call: Callable[[], object]) -> float:
    """The median time of one call, replayed from a CUDA graph, in microseconds."""
    import triton.testing

    torch.cuda.synchronize()  # the calls run in a stream of their own, which does not wait for the inputs
    return 1e3 * float(triton.testing.do_bench_cudagraph(call, rep=40, return_mode="median"))


def sentence_lengths(tokens: int, seed: int = 0) -> tuple[Lengths, Lengths]:
    """Source and target lengths of as many pairs as fit into `tokens` on each side."""
    rng = np.random.default_rng(seed)
    source = rng.lognormal(np.log(28) - 0.18, 0.6, tokens // 8).round().clip(1, 256).astype(np.int64)
    target = (source * rng.lognormal(0, 0.2, len(source))).round().clip(1, 256).astype(np.int64)
    fit = (np.cumsum(source) <= tokens) & (np.cumsum(target) <= tokens)
    return source[fit], target[fit]


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape, device=GPU).to(dtype)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    actual, expected = actual.detach().double(), expected.detach().double()
    return float((actual - expected).norm() / expected.norm())


def check(name: str, pairs: Iterable[tuple[Tensor, Tensor]], limit: float = 1e-2) -> None:
    """Print the relative errors, and stop if one is too large or not a number."""
    errors = [relative_error(actual, expected) for actual, expected in pairs]
    print(f"check {name}: relative errors {' '.join(f'{error:.1e}' for error in errors)}", flush=True)
    assert all(error < limit for error in errors)


def with_grads(call: Callable[..., Tensor], inputs: tuple[Tensor, ...], grad: Tensor) -> tuple[Tensor, ...]:
    """What a function gives, and the gradients of its inputs."""
    output = call(*inputs)
    return output, *torch.autograd.grad(output, inputs, grad.to(output.dtype))


def doubles(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(tensor.detach().double().requires_grad_() for tensor in tensors)


def check_twins(
    name: str,
    kernel: Callable[..., Tensor],
    twin: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    limit: float = 1e-2,
) -> None:
    """The kernel in the type of its inputs against the twin in float64, on the same random gradient."""
    grad = normal(*kernel(*inputs).shape)
    check(name, zip(with_grads(kernel, inputs, grad), with_grads(twin, doubles(inputs), grad), strict=True), limit)


def measure_ceilings() -> tuple[float, float]:
    """TFLOP/s of a large bf16 matrix product; TB/s, read and written, of a kernel that doubles a large tensor."""
    a, b, x = normal(8192, 8192), normal(8192, 8192), normal(2**30)
    out = torch.empty_like(x)
    product, copy = median_us(lambda: a @ b), median_us(lambda: torch.mul(x, 2.0, out=out))
    return 2 * 8192**3 / product / 1e6, 2 * x.nbytes / copy / 1e6


# ---------------------------------------------------------------------------------------------------------- attention

KINDS = ("self", "causal", "cross")


def tiles_of(kind: str, source: Lengths, target: Lengths, shape: StaticShape) -> Tiles:
    keys = source if kind == "cross" else target
    return make_tiles(target, keys, causal=kind == "causal", shape=shape).to(GPU)


def check_attention() -> None:
    from heedful.fast.cuda.attention import tiled_cross_attention, tiled_self_attention

    shape = StaticShape(rows=2560, sentences=256, longest=256)
    source, target = sentence_lengths(2000)
    source[3], target[3] = 200, 150
    for kind in KINDS:
        tiles = tiles_of(kind, source, target, shape)
        widths = (512, 1024) if kind == "cross" else (1536,)
        products = tuple(normal(shape.rows, width).requires_grad_() for width in widths)

        def kernel(*products: Tensor, tiles: Tiles = tiles) -> Tensor:
            if len(products) == 2:
                return tiled_cross_attention(products[0], products[1], tiles, num_heads=8)
            return tiled_self_attention(products[0], tiles, num_heads=8, d_k=64)

        def twin(*products: Tensor, tiles: Tiles = tiles) -> Tensor:
            query, key, value = torch.cat(products, dim=1).unflatten(1, (3, 8, 64)).unbind(dim=1)
            return plain_attention(query, key, value, tiles)[0].flatten(-2)

        check_twins(f"attention {kind}", kernel, twin, products)
        behind = int(target.sum())
        output, grad, *_ = with_grads(kernel, products, normal(shape.rows, 512))
        assert not bool(output[behind:].any() or grad[behind:].any()), "zeros behind the last sentence"


def attention_calls(kind: str, size: Size, tiles: Tiles) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The kernels, forward and backward, without autograd."""
    from heedful.fast.cuda.attention_tiles import Parts, run_backward, run_forward

    heads = size.config.num_heads
    width = heads * size.config.head_d_k

    def projected() -> Parts:
        if kind == "cross":
            return Parts(normal(size.rows, width), *normal(size.rows, 2 * width).split(width, dim=1))
        return Parts(*normal(size.rows, 3 * width).split(width, dim=1))

    parts, grads, grad = projected(), projected(), normal(size.rows, width)
    output, lse = run_forward(parts, tiles, heads)
    return (
        lambda: run_forward(parts, tiles, heads),
        lambda: run_backward(grad, parts, output, lse, grads, tiles, heads),
    )


def time_attention(size: Size) -> Figures:
    """A line for each kind: ours, forward and backward, with the bandwidth it amounts to; and flash attention."""
    source, target = sentence_lengths(size.tokens)
    figures: Figures = {}
    for kind in KINDS:
        tiles = tiles_of(kind, source, target, StaticShape(size.rows, 2048, 257))
        forward, backward = (median_us(call) for call in attention_calls(kind, size, tiles))
        keys = source if kind == "cross" else target
        flash = [median_us(call) for call in flash_calls(target, keys, size, causal=kind == "causal")]
        megabytes = 2 * size.rows * size.config.num_heads * size.config.head_d_k / 1e6
        print(
            f"attention {kind:6}: forward {forward:5.1f} us ({4 * megabytes / forward:.2f} TB/s), "
            f"backward {backward:5.1f} us ({7 * megabytes / backward:.2f} TB/s); "
            f"torch's varlen_attn {flash[0]:.1f} + {flash[1] - flash[0]:.1f} us",
            flush=True,
        )
        figures[f"attention {kind}, us"] = [forward, backward]
        figures[f"varlen_attn {kind}, us"] = [flash[0], flash[1] - flash[0]]
    return figures


def flash_calls(
    query_lengths: Lengths, key_lengths: Lengths, size: Size, *, causal: bool
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Torch's flash attention for sequences of varying length: forward; forward and backward."""
    from torch.nn.attention.varlen import varlen_attn

    heads, d_k = size.config.num_heads, size.config.head_d_k
    sides = query_lengths, key_lengths, key_lengths
    inputs = tuple(normal(int(lengths.sum()), heads, d_k).requires_grad_() for lengths in sides)
    query_offsets, key_offsets = (
        torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)).to(GPU) for lengths in sides[:2]
    )
    longest = int(query_lengths.max()), int(key_lengths.max())
    window = (-1, 0) if causal else (-1, -1)

    def forward(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = varlen_attn(query, key, value, query_offsets, key_offsets, *longest, window_size=window)
        assert isinstance(output, Tensor)
        return output

    def without_grad() -> Tensor:
        with torch.no_grad():
            return forward(*inputs)

    grad = torch.randn_like(inputs[0])
    return without_grad, lambda: with_grads(forward, inputs, grad)


# ------------------------------------------------------------------------------------------------------ cross-entropy


def check_loss() -> None:
    from heedful.fast.cuda.cross_entropy import projected_cross_entropy

    hidden, weight = normal(512, 512).requires_grad_(), (normal(37_000, 512) / 22).requires_grad_()
    target = torch.randint(0, 37_000, (512,), device=GPU)
    target[500:] = -100
    smoothed, nll = projected_cross_entropy(hidden, weight, target.int(), label_smoothing=0.1)
    wide = doubles((hidden, weight))
    logits = F.linear(*wide)
    expected = F.cross_entropy(logits, target, label_smoothing=0.1, reduction="sum")
    grads = torch.autograd.grad(smoothed / 500, (hidden, weight))
    expected_grads = torch.autograd.grad(expected / 500, wide, retain_graph=True)
    plain_nll = F.cross_entropy(logits, target, reduction="sum")
    check("loss", [(smoothed, expected), (nll, plain_nll), *zip(grads, expected_grads, strict=True)])


def time_loss(size: Size) -> Figures:
    from heedful.fast.cuda.cross_entropy import projected_cross_entropy

    hidden = normal(size.rows, size.config.d_model).requires_grad_()
    weight = (normal(size.vocab_size, size.config.d_model) / 22).requires_grad_()
    target = torch.randint(0, size.vocab_size, (size.rows,), device=GPU)

    def ours() -> object:
        loss, _ = projected_cross_entropy(hidden, weight, target, label_smoothing=0.1)
        return torch.autograd.grad(loss, (hidden, weight))

    def plain() -> object:
        loss = F.cross_entropy(F.linear(hidden, weight).float(), target, label_smoothing=0.1, reduction="sum")
        return torch.autograd.grad(loss, (hidden, weight))

    x, matrix = hidden.detach(), weight.detach()
    logits = x @ matrix.T
    products = sum(median_us(call) for call in (lambda: x @ matrix.T, lambda: logits @ matrix, lambda: logits.T @ x))
    both, by_torch = median_us(ours) / 1e3, median_us(plain) / 1e3
    print(
        f"loss, forward and backward: {both:.2f} ms, of which matrix products {products / 1e3:.2f}; "
        f"F.linear + F.cross_entropy {by_torch:.2f} ms",
        flush=True,
    )
    return {"loss, ms": both, "loss by torch, ms": by_torch}


# ---------------------------------------------------------------------------------- add and norm, feed-forward network


def plain_add_norm(x: Tensor, y: Tensor, scale: Tensor, shift: Tensor, dropout: float = 0.1) -> Tensor:
    return F.layer_norm(x + F.dropout(y, dropout), x.shape[-1:], scale.to(x), shift.to(x), 1e-5)


def check_norm() -> None:
    from heedful.fast.cuda.add_norm import add_norm, seeded_dropout

    seed_1 = torch.tensor([5], device=GPU)
    for width in (512, 1024, 256, 300):
        inputs = tuple(normal(1000, width).requires_grad_() for _ in range(2))
        inputs += tuple(normal(width, dtype=torch.float32).requires_grad_() for _ in range(2))
        mask = seeded_dropout(torch.ones(1000, width, device=GPU), seed_1=seed_1, dropout=0.1).double()
        assert abs(float((mask == 0).double().mean()) - 0.1) < 0.003

        def kernel(*inputs: Tensor) -> Tensor:
            return add_norm(*inputs, seed_1=seed_1, dropout=0.1)

        def twin(x: Tensor, y: Tensor, scale: Tensor, shift: Tensor, mask: Tensor = mask) -> Tensor:
            return plain_add_norm(x, y * mask, scale, shift, 0.0)

        check_twins(f"add_norm {width}", kernel, twin, inputs)


def time_norm(size: Size) -> Figures:
    from heedful.fast.cuda.add_norm import norm_backward, norm_forward

    seed_1 = torch.tensor([5], device=GPU)
    x, y, grad, other_grad = (normal(size.rows, size.config.d_model) for _ in range(4))
    scale, shift = (normal(size.config.d_model, dtype=torch.float32) for _ in range(2))
    _, mean, rstd = norm_forward(x, y, scale, shift, seed_1, 0.1)
    forward = median_us(lambda: norm_forward(x, y, scale, shift, seed_1, 0.1))
    backward = median_us(lambda: norm_backward(grad, other_grad, x, y, scale, mean, rstd, seed_1, 0.1))
    inputs = tuple(part.detach().requires_grad_() for part in (x, y, scale, shift))
    compiled = torch.compile(plain_add_norm, dynamic=False)
    plain = [median_us(lambda call=call: with_grads(call, inputs, grad)) for call in (plain_add_norm, compiled)]  # type: ignore[misc]
    megabytes = x.nbytes / 1e6
    print(
        f"add_norm: forward {forward:.1f} us ({3 * megabytes / forward:.2f} TB/s), backward {backward:.1f} us "
        f"({6 * megabytes / backward:.2f} TB/s, two gradients summed); "
        f"both by torch {plain[0]:.0f}, by inductor {plain[1]:.0f} us",
        flush=True,
    )
    return {"add_norm, us": [forward, backward], "add_norm by torch, by inductor, us": plain}


def plain_feed_forward(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> Tensor:
    return F.linear(F.relu(F.linear(x, W_1, b_1)), W_2, b_2)


def feed_forward_inputs(size: Size, rows: int) -> tuple[Tensor, ...]:
    d_model, d_ff = size.config.d_model, size.config.d_ff
    shapes = ((rows, d_model), (d_ff, d_model), (d_ff,), (d_model, d_ff), (d_model,))
    scales = (1.0, d_model**-0.5, 1.0, d_ff**-0.5, 1.0)
    return tuple((normal(*shape) * scale).requires_grad_() for shape, scale in zip(shapes, scales, strict=True))


def check_feed_forward() -> None:
    from heedful.fast.cuda.feed_forward import feed_forward

    # The ReLU of a rounded number near 0 may let a gradient through that the exact one stops.
    inputs = feed_forward_inputs(SIZES["base"], rows=1000)
    check_twins("feed_forward", feed_forward, plain_feed_forward, inputs, limit=3e-2)


def time_feed_forward(size: Size) -> Figures:
    from heedful.fast.cuda.feed_forward import feed_forward

    inputs, grad = feed_forward_inputs(size, size.rows), normal(size.rows, size.config.d_model)
    ours = median_us(lambda: with_grads(feed_forward, inputs, grad))
    plain = median_us(lambda: with_grads(plain_feed_forward, inputs, grad))
    print(f"feed_forward, forward and backward: {ours:.0f} us; torch's {plain:.0f} us", flush=True)
    return {"feed_forward, us": ours, "feed_forward by torch, us": plain}


# ---------------------------------------------------------------------------------------------------------- the step


def matrix_flop(size: Size) -> float:
    """The operations of all matrix products of a step, forward and backward, without those inside attention."""
    config = size.config
    keys, values = config.num_heads * config.head_d_k, config.num_heads * config.head_d_v
    attention = config.d_model * (2 * keys + 2 * values)
    feed_forward = 2 * config.d_model * config.d_ff
    encoder = config.encoder_layers * (attention + feed_forward)
    decoder = config.decoder_layers * (2 * attention + feed_forward)
    return 3 * 2 * size.rows * float(encoder + decoder + config.d_model * size.vocab_size)


def random_batch(size: Size, shape: StaticShape, seed: int) -> tuple[Tensor, int]:
    """A batch in pinned memory, and its number of target tokens."""
    source, target = sentence_lengths(size.tokens, seed)
    numbers = torch.empty(num_pair_numbers(shape), dtype=torch.int32, pin_memory=True)
    rng = np.random.default_rng(seed)
    # Words are as unevenly frequent as real ones: Zipf's law.
    ids = [np.minimum(rng.zipf(1.2, int(n)), size.vocab_size) - 1 for n in (source.sum(), target.sum())]
    fill_pairs(numbers.numpy(), (ids[0], source), (ids[1], target), shape)
    return numbers, int(target.sum())


class Run:
    """A training run on random batches."""

    def __init__(self, size: Size) -> None:
        torch.manual_seed(0)
        shape = StaticShape(size.rows, 2048, 257)
        self.model = Transformer(size.config, size.vocab_size).to(GPU)
        self.step = CudaStep(self.model, shape, TrainConfig())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, betas=ADAM_BETAS, eps=ADAM_EPS, fused=True)
        self.batches = [random_batch(size, shape, seed) for seed in range(NUM_BATCHES)]
        self.steps = 0

    def advance(self) -> tuple[Tensor, int]:
        """One step: its loss sums, and its target tokens."""
        numbers, tokens = self.batches[self.steps % NUM_BATCHES]
        self.steps += 1
        self.step.load(numbers, seed=self.steps << 32, factor=1 / tokens)
        sums_2 = self.step.backward(first=True)
        norm = nn.utils.get_total_norm(self.step.mixed.gradients)
        self.optimizer.found_inf = (~norm.isfinite()).float()  # type: ignore[attr-defined]
        self.optimizer.step()
        return sums_2, tokens


def time_step(name: str, ceiling: float, *, profile: bool) -> Figures:
    """From nothing to the first step; then milliseconds and tokens a second over some steps, and the memory."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    size, begin = SIZES[name], time.perf_counter()
    run = Run(size)
    run.advance()
    torch.cuda.synchronize()
    ready = time.perf_counter() - begin
    for _ in range(20):
        run.advance()
    steps = 100 if name == "small" else 40
    torch.cuda.synchronize()
    begin = time.perf_counter()
    target_tokens = sum(run.advance()[1] for _ in range(steps))
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    sums_2, tokens = run.advance()
    millions = count(shapes_of(run.model)) / 1e6
    tflops = matrix_flop(size) * steps / seconds / 1e12
    gigabytes = torch.cuda.max_memory_reserved() / 1e9
    print(
        f"step {name}: {millions:.0f} M parameters, {target_tokens / steps:.0f} target tokens: "
        f"{1e3 * seconds / steps:.2f} ms, {target_tokens / seconds:,.0f} target tokens/s, {tflops:.0f} TFLOP/s = "
        f"{tflops / ceiling:.0%} of a product measured in this run; {ready:.0f} s to the first step; "
        f"{gigabytes:.1f} GB; loss {float(sums_2[0]) / tokens:.3f}",
        flush=True,
    )
    if profile:
        print_profile(run)
    return {
        f"{name}, ms a step": 1e3 * seconds / steps,
        f"{name}, target tokens/s": target_tokens / seconds,
        f"{name}, TFLOP/s": tflops,
        f"{name}, GB": gigabytes,
        f"{name}, s to the first step": ready,
    }


def time_without_determinism(name: str, ceiling: float) -> Figures:
    """The same step where torch may choose algorithms whose sums come in any order."""
    torch.use_deterministic_algorithms(False)
    figures = time_step(name, ceiling, profile=False)
    torch.use_deterministic_algorithms(True)
    return {f"{name}, ms a step, not deterministic": figures[f"{name}, ms a step"]}


def print_profile(run: Run) -> None:
    """Where a step's time goes, by kernel."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    with profiled(activities=[ProfilerActivity.CUDA], acc_events=True) as result:
        run.advance()
        torch.cuda.synchronize()
    rows = sorted(result.key_averages(), key=lambda row: -row.device_time_total)
    total = sum(row.device_time_total for row in rows)
    print(f"profile: {total / 1e3:.2f} ms in {sum(row.count for row in rows)} kernels")
    for row in rows[:45]:
        mean = row.device_time_total / row.count
        print(f"{row.device_time_total:9.0f} us {row.count:5d} x {mean:7.1f}  {row.key[:110]}")


CHECKS = (check_attention, check_loss, check_norm, check_feed_forward)
TIMINGS = {"attention": time_attention, "loss": time_loss, "norm": time_norm, "feed_forward": time_feed_forward}


def main() -> None:
    parser = keeping_parser(__doc__)
    parts = ("check", *TIMINGS, "step")
    parser.add_argument("--parts", type=names(parts), default=list(parts))
    parser.add_argument("--models", type=names(SIZES), default=["base", "small", "big"])
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    need_gpu()
    models = arguments.models
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}", flush=True)
    tflops, terabytes = measure_ceilings()
    print(f"ceilings: bf16 product {tflops:.0f} TFLOP/s, copy {terabytes:.2f} TB/s", flush=True)
    if "check" in arguments.parts:
        for check_one in CHECKS:
            check_one()
    figures: Figures = {"product, TFLOP/s": tflops, "copy, TB/s": terabytes}
    for part, measure in TIMINGS.items():
        if part in arguments.parts:
            figures |= measure(SIZES[models[0]])
    if "step" in arguments.parts:
        for model in models:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            figures |= time_step(model, tflops, profile=arguments.profile and model == models[0])
        figures |= time_without_determinism(models[0], tflops)
    print(json.dumps(figures, indent=1))
    keep(arguments, "kernels", figures)


if __name__ == "__main__":
    run(main)
