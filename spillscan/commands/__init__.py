"""One module a command, found by being there.

A command module has ``NAME`` (the module's own), ``HELP`` (one line), a docstring (its description),
``add_arguments(parser)`` and ``run(arguments) -> exit status``. It imports what it needs inside ``run``: ``--help``
must stay quick.
"""

from __future__ import annotations

import argparse
import pkgutil
from importlib import import_module
from typing import Protocol, cast

from spillscan import __version__


class Command(Protocol):
    """What a command module offers."""

    NAME: str
    HELP: str
    ORDER: int

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work; return the exit status."""


def all_commands(only: str | None = None) -> list[Command]:
    """Every command module of this folder, in the order in which the help lists them.

    With ``only`` the name of one of them, just that one: a compiler launcher has no time to load the others.
    """
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    if only in names:
        names = [only]
    found = [cast(Command, import_module(f"{__name__}.{name}")) for name in names]
    return sorted(found, key=lambda command: (command.ORDER, command.NAME))


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The argument parser with every command, or just ``only`` where there is such a one;
    where there is not, with names alone: enough for ``--help``.
    """
    parser = argparse.ArgumentParser(
        prog="spillscan",
        description="Reads ptxas build logs into per-kernel records; finds register spills and regressions.",
        epilog="Exit status: 0 clean, 1 findings, 2 the input or the call is wrong, or nothing was understood.",
    )
    parser.add_argument("--version", action="version", version=f"spillscan {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in all_commands(only):
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
