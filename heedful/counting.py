"""Counts as people write them."""


def counted(number: int, thing: str) -> str:
    """1 step, 2,000 steps."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
