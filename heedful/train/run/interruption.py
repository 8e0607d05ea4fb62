"""Ctrl-C and SIGTERM end a run after its next step with a checkpoint; the processes of torchrun are told, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ERROR_FILE = "HEEDFUL_ERROR_FILE"  # the environment variable that names where to note an exit code
LAUNCHER_PROCESS = "HEEDFUL_LAUNCHER"  # the one that holds the number of the process that started a worker
POLL_SECONDS = 0.2
MAX_RESTARTS = 3  # more would not help
SHUTDOWN_SECONDS = 120  # enough for a step and a checkpoint; also the time that a worker waits for a dead one
# torchrun without its tracebacks: after a signal, after an error that a worker has reported, and after a Ctrl-C while
# torch is loading.
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
    """Raised by a signal that ends the program at once."""


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
            return  # the program is already ending, and cleans up
        self.signal = number
        if again or not self.is_asked_for:
            self.has_ended = True
            raise Interrupted(self.exit_code)

    def requested(self) -> bool:
        """Whether a signal has come."""
        self.is_asked_for = True
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.signal or 0)

    def __exit__(self, *_: object) -> None:
        """Restore the handlers of before."""
        for number, handler in self.handlers.items():
            signal.signal(number, handler)


def run_torchrun(num_processes: int, arguments: Sequence[str], *, say: Callable[[str], None]) -> int:
    """Run the same command in several processes. They end after a checkpoint at SIGTERM, and at a terminal's Ctrl-C.

    If one of them dies, all are started again from the last checkpoint, up to `MAX_RESTARTS` times. After an error of
    ours they are not, as it would come again. (torchrun's own restarts read the addresses of dead processes.)
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
    """Tell `run_torchrun`, if it started this process, that an error is reported; false if another process has."""
    try:
        if path := os.environ.get(ERROR_FILE):
            with open(path, "x") as file:
                file.write(str(code))
    except FileExistsError:
        return False
    except OSError:  # a full disk, or a folder that is gone: better to report twice than not at all
        return True
    return True


def is_launched() -> bool:
    """Whether `run_torchrun` started this process; the text is then prepared."""
    return ERROR_FILE in os.environ


def leave_with_launcher() -> None:
    """End this worker when its launcher dies; it would wait for the others for hours, and hold the run folder."""
    if launcher := os.environ.get(LAUNCHER_PROCESS):
        threading.Thread(target=_watch, args=(int(launcher),), daemon=True, name="heedful-launcher").start()


def _watch(launcher: int) -> None:
    while os.getppid() == launcher:
        time.sleep(POLL_SECONDS)
    os._exit(1)


def wait_for(child: subprocess.Popen[bytes], interruption: Interruption) -> int:
    """Wait for a process to end, and return its exit code; SIGTERM to this process also ends that one.

    A terminal sends Ctrl-C to both.
    """
    interruption.requested()  # from here on a signal does not end this process
    passed_on = False
    while True:
        try:
            return child.wait(timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if interruption.signal == signal.SIGTERM and not passed_on:
                child.send_signal(signal.SIGTERM)
                passed_on = True


def without_nproc(arguments: Sequence[str]) -> list[str]:
    """The arguments without `--nproc N`, which torchrun would take for an option of its own."""
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument != "--nproc" and not argument.startswith("--nproc="):
            kept.append(argument)
        skip = argument == "--nproc"
    return kept
