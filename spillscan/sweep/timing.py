"""The user's own program, timed at each value of a sweep: interleaved runs, so that what drifts drifts for all of them.

Nothing here knows what a cap is: a command template, the values of its placeholder, and numbers that come back.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from spillscan.errors import UsageError
from spillscan.output.safe import printable
from spillscan.sweep.interrupts import held_back

LAST_NUMBER = r"(?s).*(?<![\w.+-])([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.])"
"""A ``measure`` that takes the last number that a program prints."""
INTERRUPTED = "interrupted"
"""The failure of what Ctrl-C left unmeasured."""

_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
_TAIL_BYTES = 1 << 20
_LONGEST_REASON = 200
_END_SECONDS = 5
"""A program that was killed is gone sooner."""

Value = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What one value of the sweep took."""

    value: Value
    """The value, as given."""
    command: tuple[str, ...]
    """The words that were run for it."""
    figures: tuple[float, ...] = ()
    """Of each counted run, in their order: seconds by the wall clock, or the number that the program printed."""
    unit: str = ""
    """``s`` by the wall clock; empty: the program's own."""
    failure: str = ""
    """Why there are no more figures, one line; empty where all runs went well."""

    @property
    def least(self) -> float | None:
        """The smallest figure; ``None`` without any."""
        return min(self.figures, default=None)

    @property
    def median(self) -> float | None:
        """The median figure; ``None`` without any."""
        return statistics.median(self.figures) if self.figures else None

    @property
    def spread(self) -> float | None:
        """Largest less smallest figure, as a fraction of the median; ``None`` without any, or where that is 0."""
        middle = self.median
        return (max(self.figures) - min(self.figures)) / middle if middle else None


def words_of(template: str, placeholders: Mapping[str, Value], needed: str = "") -> tuple[str, ...]:
    """The words of a command line, its placeholders (``{cap}``) filled in after it was split as a shell splits it.

    A value therefore never becomes more than a part of one word, and no shell runs unless the user writes one
    (``sh -c '…'``). Braces around anything but a known placeholder stay as they are. :class:`UsageError` where the
    template cannot be split, is empty, or lacks the placeholder ``needed``.
    """
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise UsageError(f"the command {template!r} cannot be split into words: {error}", "close its quotes") from None
    if not words:
        raise UsageError("the command to time is empty", "write the program and its arguments")
    if needed and f"{{{needed}}}" not in "".join(words):
        raise UsageError(
            f"the command {template!r} is the same for every value", f"write {{{needed}}} where it differs"
        )
    return tuple(_PLACEHOLDER.sub(lambda found: str(placeholders.get(found[1], found[0])), word) for word in words)


def order(count: int, rounds: int) -> Iterator[tuple[int, int]]:
    """(round, index) of every run: each round takes all of them once, every other round from the end, so that neither a
    warming machine nor a place in the round favours one.
    """
    for turn in range(rounds):
        yield from ((turn, index) for index in (range(count) if turn % 2 == 0 else reversed(range(count))))


def time_runs(
    template: str,
    values: Sequence[Value],
    runs: int,
    warmups: int,
    timeout_s: float,
    *,
    placeholder: str = "cap",
    fixed: Mapping[str, Value] | None = None,
    measure: str | None = None,
    watch: Callable[[Value], None] | None = None,
) -> tuple[Timing, ...]:
    """Run ``template`` for each of ``values``: ``warmups`` rounds that do not count, then ``runs`` rounds that do.

    ``placeholder`` is what ``values`` are put for, ``fixed`` fills in others (``{arch}``, ``{kernel}``). ``measure`` is
    a regular expression of what the program prints: its first group (without groups, all of it) at its last match is
    the figure, in the program's own unit; without ``measure`` a figure is wall seconds, process start included.
    ``watch`` is told the value of each run that is about to begin.

    A run that fails, takes longer than ``timeout_s`` or prints no figure ends the runs of its value, and says so in
    ``failure``. Ctrl-C ends the program that runs, and what was measured comes back; the rest is ``INTERRUPTED``.
    One :class:`Timing` a value, in their order. :class:`UsageError` where the call makes no sense.
    """
    if runs < 1 or warmups < 0 or not timeout_s > 0:
        raise UsageError("nothing to time", "ask for at least one run, and for a timeout above 0")
    pattern = pattern_of(measure)
    commands = [words_of(template, {**(fixed or {}), placeholder: value}, placeholder) for value in values]
    figures: list[list[float]] = [[] for _ in values]
    failures = [""] * len(values)
    try:
        for turn, index in order(len(values), warmups + runs):
            if failures[index]:
                continue
            if watch is not None:
                watch(values[index])
            figure, failures[index] = run_once(commands[index], timeout_s, pattern)
            if figure is not None and turn >= warmups:
                figures[index].append(figure)
    except KeyboardInterrupt:
        short = (index for index, found in enumerate(figures) if len(found) < runs and not failures[index])
        for index in short:
            failures[index] = INTERRUPTED
    return tuple(
        Timing(value=value, command=command, figures=tuple(found), unit="" if measure else "s", failure=failure)
        for value, command, found, failure in zip(values, commands, figures, failures, strict=True)
    )


def run_once(
    command: Sequence[str], timeout_s: float, pattern: re.Pattern[str] | None = None
) -> tuple[float | None, str]:
    """(figure, "") of one run, or (``None``, why there is none). The program and all that it started end with it."""
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        with held_back() as interrupt:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=os.environ,
                )
            except (OSError, ValueError) as error:
                interrupt()
                reason = error.strerror if isinstance(error, OSError) else None
                return None, _line(f"cannot run {command[0]}: {reason or error}")
        try:
            interrupt()
            status = process.wait(timeout_s)
            took = time.perf_counter() - begin
        except subprocess.TimeoutExpired:
            return None, f"took longer than {timeout_s:g} s"
        finally:
            _end(process)
        if status:
            said = _tail(output).strip().rpartition("\n")[2]
            how = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
            return None, _line(f"{how}: {said}" if said else how)
        return (took, "") if pattern is None else _measured(_tail(output), pattern)


def _measured(text: str, pattern: re.Pattern[str]) -> tuple[float | None, str]:
    found = None
    for found in pattern.finditer(text):  # noqa: B007 - the last match counts
        pass
    if found is None:
        return None, _line(f"prints nothing that fits {pattern.pattern}")
    number = found[1] if pattern.groups else found[0]
    try:
        figure = float(number)
    except (TypeError, ValueError):
        return None, _line(f"prints {number!r} where a number should be")
    return (figure, "") if math.isfinite(figure) else (None, _line(f"prints {number}, which is no time"))


def pattern_of(measure: str | None) -> re.Pattern[str] | None:
    """``measure``, compiled. :class:`UsageError` where it is no regular expression."""
    try:
        return None if measure is None else re.compile(measure)
    except re.error as error:
        raise UsageError(f"{measure!r} is no regular expression: {error}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the program's process group, and wait for the program.

    Not for ever: an interrupt may have left the lock behind that :mod:`subprocess` waits with.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL_BYTES))
    return output.read().decode(errors="replace")


def _line(reason: str) -> str:
    return printable(reason, _LONGEST_REASON)
