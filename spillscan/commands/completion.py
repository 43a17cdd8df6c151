"""Print the completion script of a shell, made from the commands as they are."""

from __future__ import annotations

import argparse
import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress

from spillscan.commands import build_parser
from spillscan.commands._library import scan
from spillscan.commands._policy import show_rare
from spillscan.judging.rules import all_rules
from spillscan.model.holes import KINDS
from spillscan.occupancy.devices import devices
from spillscan.output.errors import SpillscanError, UsageError
from spillscan.reports import formats

EPILOG = 'Example: eval "$(spillscan completion bash)"'

SHELLS = ("bash", "zsh", "fish")
_FILES = ("INPUT", "BUILD", "DUMP", "FILE", "CSV")
"""Metavariables of arguments that name files."""
_LARGEST_BYTES, _SECONDS, _MOST = 64 << 20, 2, 1000
"""Of an input whose kernels are offered, what reading them may take, and how many are."""
_KERNELS = {
    "bash": "_spillscan_kernels",
    "zsh": "_spillscan_kernels",
    "fish": "(spillscan completion --kernels (commandline -opc)[2..] 2>/dev/null)",
    "preamble": {
        "bash": """_spillscan_kernels() {
  compgen -W "$(spillscan completion --kernels "${COMP_WORDS[@]:1}" 2>/dev/null)" -- "$1"
}""",
        "zsh": """_spillscan_kernels() {
  compadd -- ${(f)"$(spillscan completion --kernels "${words[@]:1}" 2>/dev/null)"}
}""",
    },
}
"""How each shell asks for the kernels of the inputs that stand on its command line."""


_SEVERAL = re.compile(r'^  "\(\*\)::?', re.MULTILINE)
"""How shtab (1.13) says in zsh that an argument may stand several times: it is offered for the first alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", nargs="?", choices=SHELLS, help="which shell")
    parser.add_argument("--kernels", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    if arguments.kernels is not None:
        print("\n".join(_kernels(arguments.kernels)))
        return 0
    if arguments.shell is None:
        raise UsageError("which shell?", f"give one of {', '.join(SHELLS)}")
    import shtab

    parser = build_parser()
    archs = [device.target for device in devices()]
    for command, action in _actions(parser):
        show_rare(command)
        if action.dest == "format":
            action.choices = command.get_default("formats") or formats.names()
        elif action.dest == "arch" and action.choices is None:
            action.choices = archs
        elif action.dest == "rule" and action.choices is None:
            action.choices = [*all_rules(), *KINDS]
        elif action.dest == "kernel" and action.choices is None:
            action.complete = _KERNELS  # type: ignore[attr-defined]
        elif action.metavar in _FILES and action.choices is None:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        if isinstance(action.metavar, str):  # zsh takes what stands behind a colon for a command
            action.metavar = re.sub(r"\W+", " ", action.metavar).strip()
    text = shtab.complete(parser, arguments.shell)
    print(_SEVERAL.sub('  "*:', text) if arguments.shell == "zsh" else text)
    return 0


def _kernels(words: Sequence[str]) -> list[str]:
    """Short names of the kernels of those words that are inputs, as far as they are read in a moment. Nothing that a
    shell could act on: plain identifiers only."""

    def out_of_time(*_: object) -> None:
        raise TimeoutError

    found: set[str] = set()
    with suppress(TimeoutError):
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, out_of_time)
            signal.setitimer(signal.ITIMER_REAL, _SECONDS)
        for word in words:
            if os.path.isfile(word) and os.path.getsize(word) <= _LARGEST_BYTES:
                with suppress(SpillscanError):
                    found.update(kernel.short_name for kernel in scan([word]).kernels)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
    return sorted(name for name in found if name.isascii() and name.isidentifier())[:_MOST]


def _actions(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, argparse.Action]]:
    """Every argument of every command."""
    for action in parser._actions:
        yield parser, action
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _actions(child)
