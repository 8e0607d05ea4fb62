"""The command line: text goes to stdout, everything said to the user to stderr.

Exit codes: 0; 1 a run failed; 2 the user can mend it, and one line says how; 130 Ctrl-C; 143 SIGTERM. The commands are
in `commands/`, one short function per verb; nothing there computes. torch is imported inside them, so that `--help`
answers at once.
"""

from __future__ import annotations

import io
import os
import sys
from typing import NoReturn

import click

from heedful import __version__
from heedful.cli.commands import (
    attend,
    built_in,
    card,
    doctor,
    evaluate,
    export,
    fetch,
    models,
    serve,
    train,
    translate,
)
from heedful.cli.messages import say
from heedful.errors import HeedfulError, TrainingError
from heedful.train.run.interruption import note_error


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="heedful")
def commands() -> None:
    """From two text files to a translator: the system of "Attention Is All You Need"."""


for command in (
    train.train,
    translate.translate,
    evaluate.evaluate,
    evaluate.score,
    card.card,
    serve.serve,
    attend.attend,
    attend.positions,
    attend.curves,
    models.info,
    models.config,
    models.average,
    export.export,
    doctor.doctor,
    fetch.fetch,
    built_in.corpus,
    built_in.demo,
):
    commands.add_command(command)


def _where_to_look(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f" ({context.command_path} --help shows how)" if context else ""


def _os_error(error: OSError) -> str:
    """What the system refused, and where; a full disk behind stdout has no name."""
    return f"{error.filename or 'stdout, or a file'}: cannot be read or written ({error.strerror or error})"


def _open_closed_streams() -> None:
    """A stream that was closed (`2>&-`) leads nowhere; else the next file that is opened would get its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 (for as long as we live)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _bear_any_letter() -> None:
    """A file or pipe in an old code page gets a ? for what it lacks (→), and not half of the output."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def _leave_stdout() -> None:
    """Python writes what is left for stdout as it ends, and would complain of the same again."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_once(text: str, code: int) -> None:
    """Of several processes the first one says it."""
    if note_error(code):
        say(f"heedful: {text}")


def main() -> NoReturn:
    """Run the command; a user's mistake is one line and an exit code, never a traceback.

    When whoever reads our output has left, click ends us without a word.
    """
    # A thread that has waited for some microseconds sleeps (OpenMP reads this as torch is imported): otherwise it keeps
    # a core busy with waiting, and where another process wants that core, every product takes a turn of the scheduler.
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    _open_closed_streams()
    _bear_any_letter()
    try:
        code = commands.main(prog_name="heedful", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.ClickException as error:
        say(f"heedful: {error.format_message()}{_where_to_look(error)}")
        code = error.exit_code
    except HeedfulError as error:
        code = 1 if isinstance(error, TrainingError) else 2
        _say_once(str(error), code)
    except OSError as error:
        code = 2
        _say_once(_os_error(error), code)
        _leave_stdout()
    except (click.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code or 0)
