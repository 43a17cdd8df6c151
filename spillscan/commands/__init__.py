"""One module a command, found by being there; :data:`GROUPS` says what each is for.

A command module has a docstring (its description), ``EPILOG`` (an example), ``add_arguments(parser)`` and
``run(arguments) -> exit status``. Only the module of the command that is called is loaded.
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

    EPILOG: str
    """What its help ends with."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work; return the exit status."""


GROUPS: dict[str, dict[str, str]] = {
    "read": {
        "scan": "read build logs or binaries into a table of kernels",
        "show": "print the spill map of a kernel in a SASS dump or a binary",
        "advise": "what to do first: families by weight, with line, cause, remedy and command",
        "size": "show what binaries weigh: by arch, kind, kernel, family, file",
        "times": "show what compilations took: by file, arch, tool, kernel, family",
        "limiters": "what limits each kernel's occupancy, and the next steps",
        "profile": "hold what Nsight Compute measured against a build",
        "launches": "make a launch map for the policy: of a profile, a table, or a cache",
    },
    "gate": {
        "check": "exit with 1 if a kernel spills or breaks a limit",
        "baseline": "record the findings that are accepted, or drop those that are gone",
    },
    "compare": {
        "diff": "compare two builds, or several side by side",
        "why": "say why a kernel's registers or spills grew between two builds",
        "bisect": "the builds of a dataset in which a figure changed, or a kernel came or went",
        "sweep": "what real ptxas makes of a kernel at each register cap or launch bound",
    },
    "explain": {
        "explain": "explain a rule or a hole, or list all",
        "occupancy": "resident blocks and warps per SM of a launch, what limits them, and the next step each way",
        "devices": "list the known compute capabilities, or everything about one",
    },
    "history": {
        "audit": "read whole trees into a dataset that keeps build after build",
        "dataset": "list the builds of a dataset, verify, repair or compact it",
        "history": "what the builds of a dataset come to, where that jumped, and what changed last",
        "query": "ask a dataset anything, in SQL",
        "top": "the worst kernels of a build in a dataset",
        "trend": "how a kernel's figures went over the builds of a dataset",
    },
    "build": {
        "run": "run a build and keep what its compilers say",
        "wrap": "run a compiler and keep its figures in a record file",
        "filter": "copy a build's output without the compiler's figures",
    },
    "set up": {
        "init": "write a policy, a baseline and a CI job for this repository",
        "doctor": "say what the gate of this repository lacks",
        "config": "print the policy in force, and where each value comes from",
        "completion": "print a completion script for bash, zsh or fish",
    },
}
"""What people do, and the commands for it with a line on each, as the help lists them."""
_ABOUT = {name: about for commands in GROUPS.values() for name, about in commands.items()}
_NAME_COLUMN = 12


def all_names() -> list[str]:
    """Of every command module of this folder."""
    return folders.modules(__path__)


def _command(name: str) -> Command:
    return cast(Command, import_module(f"{__name__}.{name}"))


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
        lines = [
            f"{heading}:\n" + "\n".join(f"  {name:{_NAME_COLUMN}}{about}" for name, about in commands.items())
            for heading, commands in GROUPS.items()
        ]
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        listed = "\n".join(lines)
        options = "options:\n  -h, --help  show this help message and exit\n  --version   show the version and exit"
        more = "`spillscan help COMMAND` describes one."
        return f"{formatter.format_help()}\n{listed}\n\n{options}\n\n{more}\n{self.epilog}\n"


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The argument parser of every command, or of ``only`` one; where there is none of that name it knows all names
    alone. A compiler launcher has no time for more."""
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
    known = {only: _ABOUT[only]} if only in _ABOUT else _ABOUT
    for name, about in known.items():
        if only not in (None, name):
            subparsers.add_parser(name, help=about)
            continue
        command = _command(name)
        subparser = subparsers.add_parser(name, help=about, description=command.__doc__, epilog=command.EPILOG or None)
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run, parser=subparser)
    return parser
