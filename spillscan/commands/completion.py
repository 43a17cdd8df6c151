"""Print a completion script for bash, zsh or fish."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from spillscan.commands import build_parser
from spillscan.judging.rules import all_rules
from spillscan.model.gaps import KINDS
from spillscan.occupancy.devices import devices
from spillscan.reports import formats

EPILOG = 'Example: eval "$(spillscan completion bash)"'

SHELLS = ("bash", "zsh", "fish")
_FILES = ("INPUT", "BUILD", "FILE", "CSV")
"""Metavariables of arguments that are files."""
_SEVERAL = re.compile(r'^  "\(\*\)::?', re.MULTILINE)
"""Notation of shtab 1.13 for a repeatable argument in zsh, which would complete only the first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    parser = build_parser()
    archs = [device.target for device in devices()]
    for command, action in _actions(parser):
        if action.dest == "format":
            action.choices = command.get_default("formats") or formats.names()
        elif action.dest == "arch" and action.choices is None:
            action.choices = archs
        elif action.dest == "rule" and action.choices is None:
            action.choices = [*all_rules(), *KINDS]
        elif action.metavar in _FILES and action.choices is None:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        if isinstance(action.metavar, str):  # zsh parses text after a colon as a command
            action.metavar = re.sub(r"\W+", " ", action.metavar).strip()
    text = shtab.complete(parser, arguments.shell)
    print(_SEVERAL.sub('  "*:', text) if arguments.shell == "zsh" else text)
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, argparse.Action]]:
    """All arguments of all commands, each with its parser."""
    for action in parser._actions:
        yield parser, action
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _actions(child)
