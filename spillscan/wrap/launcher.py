"""Runs a compiler as its caller would: same arguments, same output but for the figures, same exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from spillscan import compilation
from spillscan.compilation import Compilation
from spillscan.wrap.filter import copy, figures_lines
from spillscan.wrap.record import Record

NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""What shells return for a command that cannot be run, or is not there."""

_FIGURES_OPTIONS = {"nvcc": ("-Xptxas", "-v"), "clang": ("-Xcuda-ptxas", "-v"), "ptxas": ("-v",), "nvlink": ("-v",)}


def run(command: Sequence[str], verbose: bool) -> int:
    """Run ``command`` and return its exit status; ``verbose`` adds the option that makes a compiler report its figures.

    What it is asked to make gets a record file. A command that makes nothing is run in place of this process.
    """
    made = compilation.parse(command)
    if made is not None and verbose:
        command = with_figures(command, made)
    record = None if made is None else _record(made, command)
    if made is None or record is None:
        return _become(command)
    try:
        child = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ)
    except OSError as error:
        record.drop(stale=False)
        return _cannot_run(command, error)
    _stand_aside(child)
    if asks_figures(command):
        figures_lines()  # the grammar is read while the compiler works
    assert child.stderr is not None
    lines = copy(child.stderr.fileno(), sys.stderr.fileno(), record.write)
    status = child.wait()
    if status == 0 and lines.figures:
        prevented = record.keep()
        if prevented is not None:
            _no_record(made.object, prevented)
    else:
        record.drop(stale=status == 0)
    return status if status >= 0 else _die_of(-status)


def with_figures(command: Sequence[str], made: Compilation) -> list[str]:
    """``command`` with the option that makes its compiler report registers and spills, unless it is there."""
    if asks_figures(command):
        return list(command)
    after = made.tool_index + 1
    return [*command[:after], *_FIGURES_OPTIONS[made.tool], *command[after:]]


def asks_figures(command: Sequence[str]) -> bool:
    """Whether ``command`` asks the assembler for its figures: ``-Xptxas -v`` in any form, ``--resource-usage``."""
    passed_on = ""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word in ("--resource-usage", "-res-usage"):
            return True
        option, _, value = word.partition("=")
        if option in ("-Xptxas", "--ptxas-options", "-Xcuda-ptxas"):
            passed_on += "," + (value or following)
    if os.path.basename(command[0]).removesuffix(".exe") == "ptxas":
        passed_on = ",".join(command[1:])
    return any(option in ("-v", "--verbose") for option in passed_on.split(","))


def _record(made: Compilation, command: Sequence[str]) -> Record | None:
    if not made.object:
        return None
    try:
        return Record(made.object, command)
    except OSError as error:
        _no_record(made.object, error)
        return None


def _no_record(made: str, error: OSError) -> None:
    print(f"spillscan: no record of {made}: {error.strerror}", file=sys.stderr)


def _become(command: Sequence[str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        if os.name == "posix":
            os.execvpe(command[0], list(command), os.environ)
        return subprocess.run(command, check=False, env=os.environ).returncode
    except OSError as error:
        return _cannot_run(command, error)


def _cannot_run(command: Sequence[str], error: OSError) -> int:
    print(f"spillscan: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
    return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


def _stand_aside(child: subprocess.Popen[bytes]) -> None:
    """Signals are the compiler's to answer: the terminal sends its own to both, others are passed on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, lambda received, _: child.send_signal(received))


def _die_of(number: int) -> int:
    """End as the compiler ended, so that the caller sees the same signal."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
