"""A command that is run in the test's own process, and what came of it."""

from collections.abc import Callable
from typing import NamedTuple


class Result(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Result]


def one_line(result: Result) -> str:
    """The one line that a user's mistake gets."""
    assert result.code == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    return result.err
