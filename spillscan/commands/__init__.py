"""One module per command, named in :data:`GROUPS` with a line of help each.

A command module has a docstring (its description), ``EPILOG`` (an example), ``add_arguments(parser)`` and
``run(arguments) -> exit status``. Only the module of the called command is loaded. A command with verbs declares them
in ``add_arguments`` with :func:`add_verbs`, and has no positional arguments of its own.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any, NoReturn, Protocol, cast

from spillscan import __version__
from spillscan.output.errors import closest, nearest
from spillscan.output.safe import printable
from spillscan.output.terminal import columns


class Command(Protocol):
    """Interface of the module of a command or verb."""

    EPILOG: str
    """Last line of its help: an example."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command; return the exit status."""


GROUPS: dict[str, dict[str, str]] = {
    "read": {
        "scan": "print a table of the kernels in build logs or binaries",
        "show": "print the spills of a kernel by source line and loop",
        "advise": "rank spilling kernels by cost, with line, cause and fix",
        "size": "print the size of binaries by arch, kind, kernel or file",
        "profile": "compare Nsight Compute measurements with a build",
    },
    "gate": {
        "check": "fail if a kernel spills, exceeds a limit or regresses",
        "baseline": "record today's findings as accepted, or drop fixed ones",
        "init": "write a policy, a baseline and a CI job for this repository",
    },
    "compare": {
        "diff": "compare two builds, kernel by kernel",
        "sweep": "compile kernels at several register limits or launch bounds",
        "history": "list regressions and improvements over many builds",
    },
    "explain": {
        "occupancy": "print blocks per SM of a launch or a build, and their limiters",
        "explain": "explain a rule or a gap, or list all of them",
    },
    "set up": {
        "run": "run a build and record its compiler calls",
        "config": "print the policy in force",
        "completion": "print a completion script for bash, zsh or fish",
    },
}
"""Commands by group, with one line of help each, in the order of the help."""
COMMANDS = {name: about for commands in GROUPS.values() for name, about in commands.items()}
_NAME_COLUMN = 12


class _Formatter(argparse.HelpFormatter):
    """Help formatter that gets the width from :func:`columns`; argparse creates one per argument, and :mod:`shutil` is
    slow."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns(80) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Example commands one per line, to run as pasted; other text wrapped."""
        heading, mark, commands = text.partition(_EXAMPLE)
        if not mark or heading:
            return super()._fill_text(text, width, indent)
        if len(text) <= width and "; " not in commands:
            return indent + text
        return "\n".join([f"{indent}{_EXAMPLE.rstrip()}", *(f"{indent}  {each}" for each in commands.split("; "))])


_EXAMPLE = "Example: "


_LONGEST_ERROR = 300
"""Maximum characters of an error, since words of a call may be long and hostile."""
_CHOICE = re.compile(
    r"(?:argument (?P<argument>\S+): )?invalid choice: (?P<word>'.*'|\".*\") \(choose from (?P<all>.*)\)"
)
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<word>\S+)")


class Parser(argparse.ArgumentParser):
    """Argument parser that reports a wrong option, value or name in one line, with the nearest valid one."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, "allow_abbrev": False, **declared})

    def format_help(self) -> str:
        """The help, with usage in one line."""
        self.usage = self.usage or self._usage()
        return super().format_help()

    def _usage(self) -> str:
        words = [self.prog, "[OPTIONS]"]
        for action in self._get_positional_actions():
            name = str(action.metavar or action.dest)
            several = f"{name}..." if action.nargs in ("*", "+") else name
            optional = action.nargs in ("*", "?") or (action.nargs == argparse.PARSER and not action.required)
            words.append(f"[{several}]" if optional else several)
        return " ".join(words).replace("%", "%%")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, and keep them for :meth:`error`."""
        self._words = list(args or ())
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; errors are reported by the parser of the command that was called."""
        parsed, extras = self.parse_known_args(args, namespace)
        if extras:
            getattr(parsed, "parser", self).error(f"unrecognized arguments: {' '.join(extras)}")
        return parsed

    def error(self, message: str) -> NoReturn:
        """Print an error in one line, and exit with 2."""
        what, hint = message, ""
        if match := _CHOICE.match(message):
            what, hint = self._wrong_choice(
                match["argument"], match["word"][1:-1], re.findall(r"'([^']*)'", match["all"])
            )
        elif match := _UNKNOWN.match(message):
            option = match["word"].partition("=")[0]
            if option.startswith("-"):
                what, hint = self._wrong_option(option)
            else:
                several = any(each.nargs in ("*", "+", argparse.PARSER) for each in self._get_positional_actions())
                what, hint = f"unexpected argument {option}", "list all inputs next to each other" * several
        what = what.replace("the following arguments are required:", "missing")
        line = printable(f"{self.prog}: {what}", _LONGEST_ERROR)
        self.exit(2, f"{line}; {hint or f'see `{self.prog} --help`'}\n")

    def _wrong_option(self, option: str) -> tuple[str, str]:
        from spillscan.commands._synonyms import meant

        verbs = self._verbs()
        having = [verb.prog for verb in verbs.values() if option in verb._option_string_actions]
        known = [*self._option_string_actions]
        if having:
            return f"{option} must follow its verb", f"write {having[0]} {option}"
        if "--set" in known and (key := option.strip("-").replace("-", "_")) in _policy_keys():
            return f"unknown option {option}", f"write --set {key}=VALUE"
        near = meant(option, known) or closest(option, known)
        return f"unknown option {option}", f"did you mean {near}?" if near else ""

    def _wrong_choice(self, argument: str, word: str, known: list[str]) -> tuple[str, str]:
        before = self._words[self._words.index(word) - 1] if word in self._words[1:] else ""
        option = before.partition("=")[0]
        if argument == "VERB" and option.startswith("-") and option not in self._option_string_actions:
            return self._wrong_option(option)  # the word is its value
        kind = argument.lower() if argument.isupper() else f"{argument} value"
        from spillscan.commands._synonyms import meant

        near = meant(word, known)
        return f"unknown {kind} {word!r}", f"did you mean {near}?" if near else nearest(word, known)

    def _verbs(self) -> Mapping[str, Parser]:
        """Parsers of the command's verbs."""
        groups = (each for each in self._actions if isinstance(each, argparse._SubParsersAction))
        return next((each.choices for each in groups), {})


class _Overview(Parser):
    """Parser of all commands, whose help groups them."""

    def format_help(self) -> str:
        """The help: commands by group, and what to run first."""
        lines = [f"usage: {self.usage}", self.description, ""]
        for heading, commands in GROUPS.items():
            lines += [f"{heading}:", *(f"  {name:{_NAME_COLUMN}}{about}" for name, about in commands.items())]
        return "\n".join(map(str, [*lines, "", self.epilog, ""]))


def _policy_keys() -> Collection[str]:
    from spillscan.judging.policy.file import KEYS  # imported only for an error: slow

    return KEYS


def build_parser(only: str | None = None) -> Parser:
    """Argument parser of every command, or of ``only`` one, which knows the others only by name."""
    parser = _Overview(
        prog="spillscan",
        usage="spillscan COMMAND ...",
        description="Finds register spills and regressions in builds of CUDA kernels.\n"
        "Start with `spillscan scan build.log`, then `spillscan advise build.log`.",
        epilog="`spillscan COMMAND --help` describes a command; `--version` prints the version.\n"
        "Exit status: 0 passed, 1 failing findings, 2 incomplete input or usage error.\n`run` passes on the build's.",
    )
    parser.add_argument("--version", action="version", version=f"spillscan {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser, prog="spillscan")
    for name, about in COMMANDS.items():
        if only is not None and only != name:
            subparsers.add_parser(name, help=about)
        else:
            _add(subparsers, name, about, cast(Command, import_module(f"{__name__}.{name}")))
    return parser


def add_verbs(parser: argparse.ArgumentParser, verbs: Mapping[str, tuple[str, Any]], required: bool = False) -> None:
    """Add subcommands (verbs) to a command: by name, its line of help and its module."""
    subparsers = parser.add_subparsers(metavar="VERB", required=required, parser_class=Parser)
    inherited = {action.dest for action in parser._actions}
    for name, (about, command) in verbs.items():
        for action in _add(subparsers, name, about, command)._actions:
            if action.dest in inherited and action.dest != "help":
                action.default = argparse.SUPPRESS  # otherwise it would override an option given before the verb


def _add(subparsers: Any, name: str, about: str, command: Command) -> Parser:
    parser: Parser = subparsers.add_parser(name, help=about, description=command.__doc__, epilog=command.EPILOG or None)
    command.add_arguments(parser)
    parser.set_defaults(run=command.run, parser=parser)
    return parser
