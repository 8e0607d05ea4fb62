"""Ctrl-C and SIGTERM: a run ends after its next step, or amid a validation, with a checkpoint; and through torchrun."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ERROR_FILE = "HEEDFUL_ERROR_FILE"  # the environment variable that names where to note an exit code
LAUNCHER_PROCESS = "HEEDFUL_LAUNCHER"  # the one that holds the number of the process that started a worker
TERM_AT_ONCE: dict[int, float] = {signal.SIGTERM: 0.0}  # what is passed on to a child, after so many seconds
POLL_SECONDS = 0.2
MAX_RESTARTS = 3  # after that something is wrong that starting again does not mend
SHUTDOWN_SECONDS = 120  # for a step and a checkpoint; a worker that waits for a dead one is left so long, too
# torchrun, which would end in a traceback when it has passed a signal on and its workers have left, or when one of them
# has said what is wrong; or at a Ctrl-C while torch is loaded.
LAUNCHER = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.environ["{LAUNCHER_PROCESS}"] = str(os.getpid())
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import get_args_parser, main
if any("--shutdown-timeout" in action.option_strings for action in get_args_parser()._actions):  # older ones lack it
    sys.argv[1:1] = ["--shutdown-timeout={SHUTDOWN_SECONDS}"]
try:
    main()
except SignalException as error:
    sys.exit(128 + error.sigval)
except ChildFailedError:
    if not os.path.exists(os.environ["{ERROR_FILE}"]):
        raise
    sys.exit(1)
"""


class Interrupted(SystemExit):
    """A signal has ended the program, at once."""


class Interruption(AbstractContextManager["Interruption"]):
    """Within this context a signal only sets a flag, which `requested` returns.

    Until that is first called there is nothing to save, so a signal ends the program at once; a second Ctrl-C does too.
    """

    def __init__(self, signals: Sequence[signal.Signals] = SIGNALS) -> None:
        self.signals = signals
        self.signal: int | None = None
        self.is_asked_for = self.has_ended = False
        self.handlers: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        self.handlers = {number: signal.signal(number, self._note) for number in self.signals}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Under torchrun a worker hears of Ctrl-C twice: from the terminal and from torchrun.
        again = self.signal == signal.SIGINT and number == signal.SIGINT and "WORLD_SIZE" not in os.environ
        if self.has_ended and number == signal.SIGTERM:
            return  # it is on its way out, and clears up
        self.signal = number
        if again or not self.is_asked_for:
            self.has_ended = True
            raise Interrupted(self.exit_code)

    def requested(self) -> bool:
        """Has a signal come?"""
        self.is_asked_for = True
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.signal or 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Signals do again what they did before."""
        for number, handler in self.handlers.items():
            signal.signal(number, handler)


def run_torchrun(num_processes: int, arguments: Sequence[str], *, say: Callable[[str], None]) -> int:
    """The same command in several processes; a signal is passed on, and they leave after a checkpoint.

    When one of them dies all are started again, up to `MAX_RESTARTS` times, and go on from the last checkpoint. What
    ends with an error of ours would end so again, and is not. (torchrun's own restarts read the addresses of the dead.)
    """
    launch = ["-c", LAUNCHER, "--standalone", f"--nproc-per-node={num_processes}", "-m", "heedful"]
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // num_processes))}
    with Interruption() as interruption, tempfile.TemporaryDirectory() as folder:
        interruption.requested()
        error = Path(folder) / "exit-code"
        for attempt in range(1 + MAX_RESTARTS):
            if attempt:
                say(f"a process died; all are started again ({attempt} of at most {MAX_RESTARTS} times)")
            environment = threads | os.environ | {ERROR_FILE: str(error)}
            child = subprocess.Popen([sys.executable, *launch, *without_nproc(arguments)], env=environment)
            code = wait_for(child, interruption)
            if code == 0 or interruption.requested() or error.exists():
                break
        known = int(error.read_text() or code) if error.exists() else code
        return interruption.exit_code if interruption.requested() else known


def note_error(code: int) -> bool:
    """Tell `run_torchrun`, if it started this process, that the end was no accident; false: another one has told it."""
    try:
        if path := os.environ.get(ERROR_FILE):
            with open(path, "x") as file:
                file.write(str(code))
    except FileExistsError:
        return False
    except OSError:  # a full disk, or a folder that was cleared away: better said twice than not at all
        return True
    return True


def is_launched() -> bool:
    """Whether `run_torchrun` started this process, and has prepared the text."""
    return ERROR_FILE in os.environ


def leave_with_launcher() -> None:
    """Let a worker end when its launcher has died: it would wait for hours to join the others, and hold the run."""
    if launcher := os.environ.get(LAUNCHER_PROCESS):
        threading.Thread(target=_watch, args=(int(launcher),), daemon=True, name="heedful-launcher").start()


def _watch(launcher: int) -> None:
    while os.getppid() == launcher:
        time.sleep(POLL_SECONDS)
    os._exit(1)


def wait_for(
    child: subprocess.Popen[bytes], interruption: Interruption, pass_on: Mapping[int, float] = TERM_AT_ONCE
) -> int:
    """The exit code of a process that a signal ends as it ends this one: after a checkpoint, where it trains.

    Signals are passed on after so many seconds: Ctrl-C has reached it through a terminal before, if there is one. They
    come as SIGTERM, since a second Ctrl-C would save nothing.
    """
    interruption.requested()  # from now on a signal is no end of this process
    waited, passed_on = 0.0, False
    while True:
        try:
            return child.wait(timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            waited += POLL_SECONDS if interruption.signal else 0.0
            if waited > pass_on.get(interruption.signal or 0, math.inf) and not passed_on:
                child.send_signal(signal.SIGTERM)
                passed_on = True


def without_nproc(arguments: Sequence[str]) -> list[str]:
    """The arguments without `--nproc N`, which torchrun stands in for."""
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument != "--nproc" and not argument.startswith("--nproc="):
            kept.append(argument)
        skip = argument == "--nproc"
    return kept
