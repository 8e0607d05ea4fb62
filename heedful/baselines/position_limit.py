"""The longest sentence of a family whose positions have weights of their own."""

from __future__ import annotations

from heedful.errors import DataError
from heedful.model.packed import Packed


def refuse_longer(sentences: Packed, max_positions: int) -> None:
    """An error if a sentence has more tokens than the model has positions."""
    if sentences.longest > max_positions:
        raise DataError(
            f"a sentence of {sentences.longest} tokens is longer than the {max_positions} positions of this model "
            f"(model.max_positions); split it, or train with more"
        )
