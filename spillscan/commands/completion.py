"""Print the completion script of a shell, made from the commands as they are."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

NAME = "completion"
HELP = "print a completion script for bash, zsh or fish"
ORDER = 90
EPILOG = 'Example: eval "$(spillscan completion bash)"'

SHELLS = ("bash", "zsh", "fish")
_FILES = ("INPUT", "BUILD", "DUMP", "FILE", "CSV")
"""Metavariables of arguments that name files."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from spillscan import reports
    from spillscan.commands import build_parser
    from spillscan.commands._policy import show_rare
    from spillscan.model.holes import KINDS
    from spillscan.occupancy.devices import devices
    from spillscan.rules import all_rules

    parser = build_parser()
    archs = [device.target for device in devices()]
    for command, action in _actions(parser):
        show_rare(command)
        if action.dest == "format":
            action.choices = command.get_default("formats") or reports.names()
        elif action.dest == "arch" and action.choices is None:
            action.choices = archs
        elif action.dest == "rule" and action.choices is None:
            action.choices = [*all_rules(), *KINDS]
        elif action.metavar in _FILES and action.choices is None:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, argparse.Action]]:
    """Every argument of every command."""
    for action in parser._actions:
        yield parser, action
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _actions(child)
