"""One module a command, found by being there.

A command module has ``NAME`` (the module's own), ``HELP`` (one line), a docstring (its description),
``add_arguments(parser)`` and ``run(arguments) -> exit status``. It imports what it needs inside ``run``: ``--help``
must stay quick.
"""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from typing import Any, NoReturn, Protocol, cast

from spillscan import __version__
from spillscan.output import folders
from spillscan.output.terminal import columns

PUBLIC = ("_library",)
"""What other rooms may import from: these modules, and this one."""


class Command(Protocol):
    """What a command module offers."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work; return the exit status."""


def all_commands(only: str | None = None) -> list[Command]:
    """Every command module of this folder, in the order in which the help lists them.

    With ``only`` the name of one of them, just that one: a compiler launcher has no time to load the others. None where
    all that is asked is the version.
    """
    if only == "--version":
        return []
    names = folders.modules(__path__)
    if only in names:
        names = [only]
    found = [cast(Command, import_module(f"{__name__}.{name}")) for name in names]
    listed = [name for _, commands in GROUPS for name in commands]
    return sorted(found, key=lambda command: listed.index(command.NAME))


GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("read", ("scan", "show", "advise", "size", "times", "limiters", "profile", "launches")),
    ("gate", ("check", "baseline")),
    ("compare", ("diff", "why", "bisect", "sweep")),
    ("explain", ("explain", "occupancy", "devices")),
    ("history", ("audit", "dataset", "history", "query", "top", "trend")),
    ("build", ("run", "wrap", "filter")),
    ("set up", ("init", "doctor", "config", "completion")),
)
"""What people do, and the commands for it, in the order of every list of them."""
_NAME_COLUMN = 12


class _Formatter(argparse.HelpFormatter):
    """argparse makes one for each argument that is declared, and would have :mod:`shutil` say how wide it is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns(80) - 2)


class Parser(argparse.ArgumentParser):
    """Says what was perhaps meant; of a command's wrong options, its own usage."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **declared})

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does."""
        found, extras = self.parse_known_args(args, namespace)
        if extras:
            getattr(found, "parser", self).error(f"unrecognized arguments: {' '.join(extras)}")
        return found

    def error(self, message: str) -> NoReturn:
        """Usage and one line, with what is nearest to what was written."""
        found = re.search(r"unrecognized arguments: (?P<option>--[^ =]+)|invalid choice: '(?P<word>[^']*)'", message)
        if found:
            from difflib import get_close_matches

            known = list(self._option_string_actions) if found["option"] else self._choices(message)
            near = get_close_matches(found["option"] or found["word"], known, n=1)
            message += f"; did you mean {near[0]}?" if near else ""
        super().error(message)

    def _choices(self, message: str) -> list[str]:
        return [str(choice) for action in self._actions for choice in action.choices or () if str(choice) in message]


class _Overview(Parser):
    """The parser of all commands, whose help groups them by what people do."""

    def format_help(self) -> str:
        """As argparse does, with headings in the list of commands."""
        (subparsers,) = (each for each in self._actions if isinstance(each, argparse._SubParsersAction))
        about = {each.dest: each.help for each in subparsers._choices_actions}
        lines = [
            f"{heading}:\n" + "\n".join(f"  {n:{_NAME_COLUMN}}{about[n]}" for n in names) for heading, names in GROUPS
        ]
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        listed = "\n".join(lines)
        options = "options:\n  -h, --help  show this help message and exit\n  --version   show the version and exit"
        more = "`spillscan help COMMAND` describes one."
        return f"{formatter.format_help()}\n{listed}\n\n{options}\n\n{more}\n{self.epilog}\n"


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The argument parser with every command, or just ``only`` where there is such a one;
    where there is not, with names alone: enough for ``--help``.
    """
    parser = _Overview(
        prog="spillscan",
        usage="spillscan [-h] [--version] COMMAND ...",
        description="Reads ptxas build logs into per-kernel records; finds register spills and regressions.",
        epilog="Exit status: 0 clean, 1 findings, 2 the input or the call is wrong, or nothing was understood.",
    )
    parser.add_argument("--version", action="version", version=f"spillscan {__version__}")
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=Parser, prog="spillscan"
    )
    for command in all_commands(only):
        subparser = subparsers.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.__doc__,
            epilog=getattr(command, "EPILOG", None),
        )
        if only in (None, command.NAME):
            command.add_arguments(subparser)
        subparser.set_defaults(run=command.run, parser=subparser)
    return parser
