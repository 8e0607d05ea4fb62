"""Counts and times as people write them."""


def counted(number: int, thing: str) -> str:
    """1 step, 2,000 steps."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def about(seconds: float) -> str:
    """A time in the largest unit of which there are two: 45 seconds, 12 minutes, 31 hours, 104 days."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return counted(round(seconds / length), unit)
    return counted(round(seconds), "second")
