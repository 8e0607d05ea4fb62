"""The best translations of a whole text, from the n-best lists of its parts, which were translated one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Chain: TypeAlias = "tuple[Chain, int] | None"  # the ranks chosen so far, the last one outside


def best_combinations(scores: Sequence[Sequence[float]], count: int) -> list[tuple[int, ...]]:
    """The ranks, one for each list of scores, that have the greatest sums; best first, `count` of them at most.

    Of equal sums the one with the better rank in an earlier list comes first.
    """
    found: list[tuple[float, Chain]] = [(0.0, None)]
    for part in scores:
        longer: list[tuple[float, Chain]] = [
            (total + score, (chain, rank)) for total, chain in found for rank, score in enumerate(part)
        ]
        found = sorted(longer, key=lambda each: -each[0])[:count]
    return [_unwound(chain) for _, chain in found]


def _unwound(chain: Chain) -> tuple[int, ...]:
    ranks: list[int] = []
    while chain is not None:
        chain, rank = chain
        ranks.append(rank)
    return tuple(reversed(ranks))
