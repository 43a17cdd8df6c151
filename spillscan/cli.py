"""Arguments and exit codes, nothing else: 0 clean, 1 findings, 2 nothing can be said. Commands are in ``commands/``."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from spillscan import __version__, commands
from spillscan.errors import SpillscanError
from spillscan.output.safe import printable

LONGEST_ERROR = 1000
"""Characters of an error message: names in it may be very long."""


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The argument parser with every command of ``spillscan.commands``, or just ``only`` where there is such a one;
    where there is not, with names alone: enough for ``--help``.
    """
    parser = argparse.ArgumentParser(
        prog="spillscan",
        description="Reads ptxas build logs into per-kernel records; finds register spills and regressions.",
        epilog="Exit status: 0 clean, 1 findings, 2 the input or the call is wrong, or nothing was understood.",
    )
    parser.add_argument("--version", action="version", version=f"spillscan {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in commands.all_commands(only):
        subparser = subparsers.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.__doc__,
            epilog=getattr(command, "EPILOG", None),
        )
        if only in (None, command.NAME):
            command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; errors become one line on standard error."""
    words = sys.argv[1:] if argv is None else argv
    arguments = build_parser(words[0] if words else None).parse_args(words)
    gc.disable()  # one command, records without cycles: collecting would only walk them again and again
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except SpillscanError as error:
        print(printable(f"spillscan: {error}", LONGEST_ERROR), file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output left (`| head`); keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except OSError as error:
        # A full disk behind standard output, most of all: what opens files by name tells their names itself.
        print(
            printable(f"spillscan: {error.filename or 'standard output'}: {error.strerror or error}"), file=sys.stderr
        )
        return 2
    except KeyboardInterrupt:
        print("spillscan: interrupted", file=sys.stderr)
        return 2
    return status


def entry() -> NoReturn:
    """The installed command: :func:`main`, then leave at once. Freeing a million records one by one takes time, too."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (`>&-`): nobody listens
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - to the end
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        # NumPy's BLAS, which nothing here calls, starts a thread for each processor. For this process only: whom it
        # starts for the user is given ``os.environ``, which this does not change.
        os.putenv("OPENBLAS_NUM_THREADS", "1")
    status = main()
    sys.stderr.flush()
    os._exit(status)
