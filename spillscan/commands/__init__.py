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
