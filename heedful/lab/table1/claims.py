"""The claims of §4 beside what was measured of them. Counts are exact, so a verdict on them needs no statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from heedful.lab.findings import Judged
from heedful.lab.statistics import Verdict
from heedful.lab.table1.complexity import (
    BYTENET_PATH,
    CONVOLUTIONAL,
    DILATED_PATH,
    KERNEL,
    KINDS,
    LSTM,
    PATHS,
    RECURRENT,
    SELF_ATTENTION,
    WRITTEN_OUT,
    Kind,
    PathKind,
)
from heedful.lab.table1.growth import crossing, exponents
from heedful.lab.table1.measured_layers import Figure, MeasuredLayers, chain, layer_operations, milliseconds, operations

TOLERANCE = 0.05  # of an exponent
FASTER: tuple[tuple[Figure, str], ...] = (
    (operations, "fewer operations"),
    (layer_operations, "fewer operations, projections included,"),
    (milliseconds, "less time"),
)


def judged(measured: MeasuredLayers) -> Iterator[Judged]:
    """Every claim of §4 that counting can decide, and that of time."""
    yield from (_growth(measured, kind) for kind in KINDS if kind is not WRITTEN_OUT)
    yield from _sequential(measured)
    yield from (_path(measured, path) for path in PATHS)
    yield _restarting_path(measured)
    yield from _cheaper_than_recurrence(measured)
    yield _convolution_beside_recurrence(measured)


def _verdict(is_so: bool) -> Verdict:
    return "agrees" if is_so else "disagrees"


def _growth(measured: MeasuredLayers, kind: Kind) -> Judged:
    """The exponents of the counted operations beside those of Table 1's formula."""
    predicted, found = measured.predicted_slopes(kind), measured.slopes(kind, operations)
    return Judged(
        claim=f"{kind.name}: O({kind.complexity}) operations",
        predicted=exponents(predicted),
        measured=exponents(found),
        verdict=_verdict(all(abs(found[axis] - predicted[axis]) <= TOLERANCE for axis in kind.varies)),
    )


def _sequential(measured: MeasuredLayers) -> Iterator[Judged]:
    """Products in a row: O(n) of recurrent layers, O(1) of all others."""
    lengths = [size.n for size in measured.sweeps["n"]]
    chains = {kind.name: [y for _, y in measured.curve(kind, "n", chain)] for kind in KINDS if kind is not WRITTEN_OUT}
    recurrent = [chains.pop(kind.name) for kind in (RECURRENT, LSTM)]
    yield Judged(
        claim="O(n) sequential operations: recurrent, LSTM",
        predicted="n products in a row",
        measured=f"{recurrent[0][0]} at n = {lengths[0]} to {recurrent[0][-1]:,} at n = {lengths[-1]:,}",
        verdict=_verdict(all(each == lengths for each in recurrent)),
    )
    yield Judged(
        claim=f"O(1) sequential operations: {', '.join(chains)}",
        predicted="as many at every n",
        measured=", ".join(_range(each) for each in chains.values()),
        verdict=_verdict(all(len(set(each)) == 1 for each in chains.values())),
    )


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _path(measured: MeasuredLayers, path: PathKind) -> Judged:
    """Whether the measured path has the closed form's length at every n."""
    curve = measured.path_curve(path)
    n, length = curve[-1]
    return Judged(
        claim=f"{path.name}: longest path {path.exact}",
        predicted=f"{path.length(n)} at n = {n}",
        measured=f"{length} at n = {n}; {_equal(curve, path)}",
        verdict=_verdict(all(found == path.length(at) for at, found in curve)),
    )


def _equal(curve: Sequence[tuple[int, int]], path: PathKind) -> str:
    equal = sum(found == path.length(n) for n, found in curve)
    return f"equal at {equal} of {len(curve)} lengths"


def _restarting_path(measured: MeasuredLayers) -> Judged:
    """Table 1 has O(log_k n) for ByteNet's convolutions, whose dilations do not grow with n."""
    n, length = measured.path_curve(BYTENET_PATH)[-1]
    return Judged(
        claim="ByteNet's dilations, which begin again at 1 after 16: longest path O(log_k n)",
        predicted=f"⌈log_k n⌉ = {DILATED_PATH.length(n)} at n = {n}",
        measured=f"{length} at n = {n}",
        verdict=_verdict(length <= DILATED_PATH.length(n)),
    )


def _cheaper_than_recurrence(measured: MeasuredLayers) -> Iterator[Judged]:
    """§4: self-attention is faster than recurrence when n < d. Of time, measured once, nothing is concluded."""
    for figure, what in FASTER:
        for other, name in ((RECURRENT, "a recurrent layer"), (LSTM, "an LSTM")):
            ours, theirs = (measured.curve(kind, "n", figure) for kind in (SELF_ATTENTION, other))
            less = {n: a < b for (n, a), (_, b) in zip(ours, theirs, strict=True)}
            equal = crossing(ours, theirs)
            yield Judged(
                claim=f"while n < d, self-attention takes {what} than {name}",
                predicted=f"less at every n < {measured.d}",
                measured=_where(less) + (f", equal at n = {equal:,.0f}" if equal else ""),
                verdict="" if figure is milliseconds else _verdict(all(less[n] for n in less if n < measured.d)),
            )


def _where(less: Mapping[float, bool]) -> str:
    """At which of all n it is less."""
    if len(set(less.values())) == 1:
        return f"{'less' if all(less.values()) else 'more'} at every n"
    return f"less at n = {', '.join(f'{n:,}' for n, is_less in less.items() if is_less)}"


def _convolution_beside_recurrence(measured: MeasuredLayers) -> Judged:
    """§4: convolutions are more expensive than recurrence by a factor of k."""
    size = measured.sweeps["n"][-1]
    ours, plain, lstm = (measured.costs[kind.name, size].operations for kind in (CONVOLUTIONAL, RECURRENT, LSTM))
    return Judged(
        claim="a convolutional layer is more expensive than a recurrent one by a factor of k",
        predicted=f"{KERNEL} times the operations, k = {KERNEL}",
        measured=f"{ours / plain:g} times a plain layer (k/2: two products), {ours / lstm:g} times an LSTM (k/8)",
        verdict=_verdict(math.isclose(ours, KERNEL * plain)),
    )
