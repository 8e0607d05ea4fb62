"""How many connections the system's limit of open files allows: each one is a file.

Where files run out, asyncio says so for every connection that it cannot take, a traceback each, again and again.
"""

from __future__ import annotations

import os
from contextlib import suppress

try:
    import resource
except ModuleNotFoundError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

ACCEPTED_AT_ONCE = 8  # connections, at each turn of the loop
TURNS = 3  # from taking one connection too many to its end
OTHER_FILES = 64  # what is opened later: the page's files, weights to align with, a run's metrics
UNCOUNTED = 32  # open already, where nobody can count them


def connections_within(wanted: int) -> int:
    """So many connections, or as many as there can be files for; the process's own limit is raised for them."""
    others = _num_open() + OTHER_FILES + TURNS * ACCEPTED_AT_ONCE
    limit = _raised_limit(wanted + others)
    return wanted if limit is None else max(1, min(wanted, limit - others))


def _num_open() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return UNCOUNTED


def _raised_limit(needed: int) -> int | None:
    """The limit of open files, after an attempt to raise it to this; None: there is none."""
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < needed:
        wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(ValueError, OSError):  # macOS has a lower one beside these
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
