"""What a computation costs, counted while it runs: its products, the longest chain of them, and its memory.

Every operation that torch dispatches passes here. How many multiply-adds it makes follows from the shapes it is given,
by torch's own formulas (`torch.utils.flop_counter`). An operation that is not known to make none is refused, so none
is missed. Counting is for the CPU: on a GPU torch runs a recurrent layer as one operation, in which we see nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_flop

aten = torch.ops.aten

ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu  # QKᵀ and the weighted sum: two products
FORMULAS = {**flop_registry, ATTENTION: sdpa_flop}
# Apart from views and what torch calls pointwise.
WITHOUT_PRODUCTS = {
    aten._softmax,
    aten._to_copy,
    aten._unsafe_view,
    aten.arange,
    aten.bucketize,
    aten.cat,
    aten.clone,
    aten.constant_pad_nd,
    aten.copy_,
    aten.empty_like,
    aten.full_like,
    aten.index_select,
    aten.masked_fill,
    aten.stack,
    aten.unsafe_split,
    aten.zeros,
    aten.zeros_like,
}


@dataclass(frozen=True, slots=True)
class Cost:
    """`longest_chain`: the most products of which each needs the result of the one before it.

    `peak_bytes`: the most that the tensors it made took at one time. What a kernel uses inside is not seen.
    """

    multiply_adds: int
    longest_chain: int
    peak_bytes: int


def cost(compute: Callable[[], object]) -> Cost:
    """Run it, and count."""
    counter = _Counter()
    with torch.no_grad(), _without_onednn(), counter:
        compute()
    return Cost(counter.multiply_adds, counter.longest_chain, counter.peak_bytes)


@contextmanager
def _without_onednn() -> Iterator[None]:
    """oneDNN runs an LSTM as one operation, in which we would see nothing."""
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


class _Counter(TorchDispatchMode):
    """Sees each operation that torch dispatches while it is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.multiply_adds = self.longest_chain = self.peak_bytes = 0
        self._live_bytes = 0
        self._chain_of: dict[int, int] = {}  # the products behind each memory block that an operation made

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        if packet in FORMULAS:
            self.multiply_adds += FORMULAS[packet](*args, **(kwargs or {}), out_val=output) // 2
        else:
            assert _makes_no_products(func), f"do not know how many products {func} makes"
        self._follow(tensors((args, kwargs)), tensors(output), _products_in_a_row(packet))
        return output

    def _follow(self, inputs: Iterable[Tensor], outputs: Iterable[Tensor], products: int) -> None:
        """Lengthen the chain, and note the memory that is new."""
        keys = {x.untyped_storage()._cdata for x in inputs}
        chain = products + max((self._chain_of.get(key, 0) for key in keys), default=0)
        self.longest_chain = max(self.longest_chain, chain)
        for output in outputs:
            storage = output.untyped_storage()
            if storage._cdata not in keys | self._chain_of.keys():
                self._made(storage)
            self._chain_of[storage._cdata] = chain

    def _made(self, storage: torch.UntypedStorage) -> None:
        self._live_bytes += storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self._live_bytes)
        weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes())

    def _freed(self, key: int, num_bytes: int) -> None:
        self._live_bytes -= num_bytes
        del self._chain_of[key]


def tensors(values: Any) -> list[Tensor]:
    """All tensors in arguments or results."""
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


def _makes_no_products(func: Any) -> bool:
    harmless = {torch.Tag.pointwise, torch.Tag.inplace_view} & set(func.tags)
    return func.is_view or bool(harmless) or func.overloadpacket in WITHOUT_PRODUCTS


def _products_in_a_row(packet: Any) -> int:
    return 2 if packet is ATTENTION else int(packet in FORMULAS)
