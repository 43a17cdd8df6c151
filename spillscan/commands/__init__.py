"""One module a command, found by being there; :data:`GROUPS` says what each is for.

A command module has a docstring (its description), ``EPILOG`` (an example), ``add_arguments(parser)`` and
``run(arguments) -> exit status``. Only the module of the command that is called is loaded.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn, Protocol, cast

from spillscan import __version__
from spillscan.commands._former import renamed
from spillscan.output.safe import printable
from spillscan.output.terminal import columns

PUBLIC = ("_library",)
"""What other packages may import from: these modules, and this one."""


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
        "show": "the spill map of one kernel",
        "advise": "what to do first: line, cause, fix and command of each family",
        "size": "what binaries weigh: by arch, kind, kernel, family, file",
        "profile": "hold what Nsight Compute measured against a build",
    },
    "gate": {
        "check": "exit with 1 if a kernel spills or breaks a limit",
        "baseline": "record the findings that are accepted, or drop those that are gone",
        "init": "write a policy, a baseline and a CI job for this repository",
        "doctor": "say what the gate of this repository lacks",
    },
    "compare": {
        "diff": "compare two builds, or several side by side; say why a kernel grew",
        "sweep": "what ptxas makes of a kernel at each cap or launch bound",
        "history": "builds kept side by side: how figures went, and when they turned",
    },
    "explain": {
        "occupancy": "resident blocks of a launch or a build, and what limits them",
        "explain": "explain a rule or a gap, or list all",
    },
    "build": {
        "run": "run a build and keep what its compilers say",
        "wrap": "run a compiler and keep its figures in a record file",
        "config": "print the policy in force, and where each value comes from",
        "completion": "print a completion script for bash, zsh or fish",
    },
}
"""What people do, and the commands for it with a line on each, as the help lists them."""
VERBS: dict[str, tuple[str, str]] = {
    "scan times": ("times", "show what compilations took: by file, arch, tool, kernel, family"),
    "profile launches": ("launches", "make a launch map for the policy: of a profile, a table, or a cache"),
    "diff why": ("why", "say why a kernel's registers or spills grew between two builds"),
    "history audit": ("audit", "read whole trees into a dataset that keeps build after build"),
    "history dataset": ("dataset", "list the builds of a dataset, verify, repair or compact it"),
    "history query": ("query", "ask a dataset anything, in SQL"),
    "history top": ("top", "the worst kernels of a build in a dataset"),
    "history trend": ("trend", "how a kernel's figures went over the builds of a dataset"),
    "history bisect": ("bisect", "the builds in which a figure changed, or a kernel came or went"),
    "occupancy INPUT": ("limiters", "what limits each kernel of a build, and the next steps"),
    "occupancy devices": ("devices", "list the known compute capabilities, or everything about one"),
    "run filter": ("filter", "copy a build's output without the compiler's figures"),
}
"""What a command does besides, by the word behind its name (``INPUT``: any that is no option): module, and a line."""
_FORMER = {module: name for name, (module, _) in VERBS.items()}
"""Names that were commands of their own; they go with the next release."""
_ABOUT = {name: about for commands in GROUPS.values() for name, about in commands.items()}
_ABOUT |= {name: about for name, (_, about) in VERBS.items()}
_NAME_COLUMN = 12


def _command(name: str) -> Command:
    module, _ = VERBS.get(name, (name, ""))
    return cast(Command, import_module(f"{__name__}.{module}"))


def spelled(words: Sequence[str]) -> tuple[list[str], str]:
    """Words of a call, a command and its verb as one of them; and what is to be said of a name that went."""
    words = list(words)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    former = {}
    if words and words[0] in _FORMER:
        former[f"spillscan {words[0]}"] = f"spillscan {_FORMER[words[0]]}"
        words[0] = _FORMER[words[0]]
    for verb in words[1:2]:
        name = f"{words[0]} {verb}"
        if name in VERBS:
            words[:2] = [name]
        elif f"{words[0]} INPUT" in VERBS and (verb == "-" or not verb.startswith("-")):
            words[:1] = [f"{words[0]} INPUT"]
    words, options = renamed(words)
    said = ", ".join(f"`{old}` is `{now}`" for old, now in (former | options).items())
    return words, said and f"{said} now; what is old goes with the next release"


class _Formatter(argparse.HelpFormatter):
    """argparse makes one for each argument that is declared, and would have :mod:`shutil` say how wide it is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns(80) - 2)


class Parser(argparse.ArgumentParser):
    """Says what was perhaps meant; of a command's wrong options, its own usage."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **declared})

    def format_help(self) -> str:
        """As argparse does, with what the command does besides."""
        verbs = [
            f"  {name}: {about}"
            for name, (_, about) in VERBS.items()
            if f"spillscan {name}".startswith(f"{self.prog} ")
        ]
        return "\n".join([super().format_help(), *(["besides:", *verbs, ""] if verbs else [])])

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does."""
        found, extras = self.parse_known_args(args, namespace)
        if extras:
            getattr(found, "parser", self).error(f"unrecognized arguments: {' '.join(extras)}")
        return found

    def error(self, message: str) -> NoReturn:
        """One line, with what is nearest to what was written, else with what says what may be."""
        found = re.search(r"unrecognized arguments: (?P<option>--[^ =]+)|invalid choice: '(?P<word>[^']*)'", message)
        near = []
        if found:
            from difflib import get_close_matches

            known = list(self._option_string_actions) if found["option"] else self._choices(message)
            near = get_close_matches(found["option"] or found["word"], known, n=1)
        if near or "argument COMMAND" in message:
            message = _CHOICES.sub("", message)
        message = message.replace("the following arguments are required:", "missing:")
        name = self.prog.removesuffix(" INPUT")
        hint = f"did you mean {near[0]}?" if near else f"`{name} --help` says what it takes"
        self.exit(2, f"{name}: {printable(message, _LONGEST_ERROR)}; {hint}\n")

    def _choices(self, message: str) -> list[str]:
        return [str(choice) for action in self._actions for choice in action.choices or () if str(choice) in message]


_CHOICES = re.compile(r" \(choose from .*\)$")
_LONGEST_ERROR = 300
"""Characters of what argparse says: words of a call may be long, and hostile."""


class _Overview(Parser):
    """The parser of all commands, whose help groups them by what people do."""

    def format_help(self) -> str:
        """The commands by what people do, and what to do first."""
        lines = [f"usage: {self.usage}", self.description, ""]
        for heading, commands in GROUPS.items():
            lines += [f"{heading}:", *(f"  {name:{_NAME_COLUMN}}{about}" for name, about in commands.items())]
        return "\n".join(map(str, [*lines, "", self.epilog, ""]))


def build_parser(only: str | None = None, nested: bool = False) -> argparse.ArgumentParser:
    """The argument parser of every command, or of ``only`` one; where there is none of that name it knows all names
    alone. A compiler launcher has no time for more. ``nested``: verbs stand below their commands, to be listed."""
    parser = _Overview(
        prog="spillscan",
        usage="spillscan COMMAND ...",
        description="Finds register spills and regressions in builds of CUDA kernels.\n"
        "First: `spillscan scan build.log`, then `spillscan advise build.log`.",
        epilog="`spillscan help COMMAND` describes one; `spillscan --version`.\n"
        "Exit status: 0 clean, 1 findings, 2 the call or the input is wrong.",
    )
    parser.add_argument("--version", action="version", version=f"spillscan {__version__}")
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=Parser, prog="spillscan"
    )
    known = {only: _ABOUT[only]} if only in _ABOUT else _ABOUT
    below: dict[str, Any] = {}
    for name, about in known.items():
        if only not in (None, name):
            subparsers.add_parser(name, help=about)
            continue
        command = _command(name)
        own, _, verb = name.partition(" ")
        if nested and verb == "INPUT":
            continue
        if nested and verb and own not in below:
            below[own] = subparsers.choices[own].add_subparsers(metavar="VERB")
        among = below[own] if nested and verb else subparsers
        called = verb if nested and verb else name
        subparser = among.add_parser(called, help=about, description=command.__doc__, epilog=command.EPILOG or None)
        subparser.prog = f"spillscan {name.removesuffix(' INPUT')}"
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run, parser=subparser)
    return parser
