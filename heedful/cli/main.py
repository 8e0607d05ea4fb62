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
    bulk,
    card,
    compare,
    corpora,
    doctor,
    evaluate,
    export,
    lab,
    models,
    prepare,
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


for module in (attend, card, compare, corpora, doctor, evaluate, export, lab, models, prepare, serve, train, translate):
    for command in vars(module).values():
        if isinstance(command, click.Command):
            commands.add_command(command)
commands.add_command(bulk.bulk)  # and not the commands of this group


def _where_to_look(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f" ({context.command_path} --help shows how)" if context else ""


def _os_error(error: OSError) -> str:
    """What the system refused, and where; a full disk that stdout goes to has no name."""
    return f"{error.filename or 'stdout, or a file'}: cannot be read or written ({error.strerror or error})"


def _open_closed_streams() -> None:
    """Point closed streams (`2>&-`) to /dev/null; otherwise the next opened file would get the stream's number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 (for as long as we live)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _replace_unknown_letters() -> None:
    """Write ? for letters (→) that the code page of stdout lacks, instead of ending in the middle of the output."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def _discard_stdout() -> None:
    """Keep Python from writing the rest to stdout as it ends, which would fail again."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_once(text: str, code: int) -> None:
    """Say an error; of several processes only the first one does."""
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
    _replace_unknown_letters()
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
        _discard_stdout()
    except (click.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code or 0)
