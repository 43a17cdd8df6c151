"""Input builds of commands: files, and standard input."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections import deque
from collections.abc import Sequence

from spillscan import library
from spillscan.builds import RUN_FILE
from spillscan.model import Build
from spillscan.output.errors import InputError, UsageError
from spillscan.output.terminal import Progress
from spillscan.reading.inputs.paths import expand


def inputs_or_stdin(inputs: Sequence[str]) -> list[str]:
    """``inputs``, or by default standard input if it is a pipe or file, else the run file of ``spillscan run``."""
    if inputs:
        return list(inputs)
    if _is_piped():
        return ["-"]
    if left := inputs_or_left(inputs):
        return left
    raise UsageError("no INPUT", "pass a build log, a binary or a folder, or pipe a log to standard input")


def inputs_or_left(inputs: Sequence[str]) -> list[str]:
    """``inputs``, or by default the run file of ``spillscan run`` in the current folder, if any."""
    return list(inputs) or [RUN_FILE] * os.path.isfile(RUN_FILE)


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file, not a terminal or the null device."""
    if sys.stdin is None or sys.stdin.closed:
        return False
    try:
        return not stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):  # replaced by a text stream
        return True


def kernel_of(arguments: argparse.Namespace, call: str, number: int | None = None) -> tuple[str, list[str]]:
    """Kernel and inputs of a ``call`` with the kernel first, or in --kernel.

    Raises UsageError if the number of inputs is not ``number``, or if kernel and input are swapped. Inputs alone (one,
    if ``number`` is ``None``) select all their kernels.
    """
    kernel, inputs = arguments.words[0], arguments.words[1:]
    if arguments.kernel is None and len(inputs) == (number or 1) - 1 and (kernel == "-" or os.path.exists(kernel)):
        return "*", arguments.words
    if arguments.kernel is not None:
        kernel, inputs = arguments.kernel, arguments.words
    if len(inputs) != (number or max(len(inputs), 1)):
        raise UsageError(f"{len(inputs) or 'no'} inputs after the kernel", f"write {call}")
    if os.path.exists(kernel) and not os.path.exists(inputs[-1]):
        try:
            expand(inputs)
        except InputError as error:
            raise UsageError(f"{error.what}, but {kernel} is a file", f"the kernel comes first: {call}") from None
    return kernel, inputs


def scan(paths: Sequence[str] | str, *, live: bool = False) -> Build:
    """:func:`spillscan.scan` with a progress line on a terminal."""
    try:
        with Progress("reading") as progress:
            _read.append(library.scan(paths, progress if progress.watched else None, live=live))
    except InputError as error:
        if paths == ["-"] and os.path.exists(RUN_FILE):
            raise InputError(error.what, f"to read what `spillscan run` recorded, pass {RUN_FILE}") from None
        raise
    return _read[-1]


_read: deque[Build] = deque(maxlen=2)
"""Last builds read; kept until the process ends, since freeing their records one by one takes time."""
