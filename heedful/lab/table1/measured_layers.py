"""All measured rows of Table 1's experiment, and the curves that can be drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from heedful.lab.table1.complexity import Kind, PathKind, Size
from heedful.lab.table1.growth import Curve, slope
from heedful.lab.table1.layer_costs import LayerCost

Sweeps: TypeAlias = Mapping[str, tuple[Size, ...]]  # by what varies: n, d, k or r
Figure: TypeAlias = Callable[[LayerCost], float]

FIT_FROM = 256  # slopes in n are fitted from here on, where what does not grow no longer counts
VALUE_OF: dict[str, Callable[[Size], int]] = {
    "n": lambda size: size.n,
    "d": lambda size: size.d,
    "k": lambda size: size.k,
    "r": lambda size: size.window,
}


def operations(cost: LayerCost) -> float:
    return cost.operations


def layer_operations(cost: LayerCost) -> float:
    return cost.layer_operations


def chain(cost: LayerCost) -> float:
    return cost.longest_chain


def millions(cost: LayerCost) -> float:
    return cost.operations / 1e6


def milliseconds(cost: LayerCost) -> float:
    return 1e3 * cost.seconds


def megabytes(cost: LayerCost) -> float:
    return cost.peak_bytes / 1e6


@dataclass(frozen=True, slots=True)
class MeasuredLayers:
    """Costs by layer and size, path lengths by layer and n."""

    sweeps: Sweeps
    costs: Mapping[tuple[str, Size], LayerCost]
    paths: Mapping[tuple[str, int], int]

    @property
    def d(self) -> int:
        """The width at which n varies."""
        return self.sweeps["n"][0].d

    def curve(self, kind: Kind, axis: str, figure: Figure) -> list[tuple[float, float]]:
        """A figure of one kind of layer against what varies."""
        return [(VALUE_OF[axis](size), figure(self.costs[kind.name, size])) for size in self.sweeps[axis]]

    def path_curve(self, path: PathKind) -> list[tuple[int, int]]:
        """The longest path against n."""
        return [(n, length) for (name, n), length in self.paths.items() if name == path.name]

    def slopes(self, kind: Kind, figure: Figure) -> dict[str, float]:
        """The exponents of a figure in all that the layer depends on."""
        return {axis: slope(fitted(self.curve(kind, axis, figure), axis)) for axis in kind.varies}

    def predicted_slopes(self, kind: Kind) -> dict[str, float]:
        """Those of Table 1's formula at the same sizes."""
        return {
            axis: slope(fitted([(VALUE_OF[axis](size), kind.order(size)) for size in self.sweeps[axis]], axis))
            for axis in kind.varies
        }


def fitted(curve: Curve, axis: str) -> Curve:
    """The points that a slope is fitted to."""
    return [(x, y) for x, y in curve if axis != "n" or x >= FIT_FROM]
