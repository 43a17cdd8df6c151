"""The user's own program, timed at each value of a sweep: interleaved runs, so that what drifts drifts for all of them.

Nothing that runs knows what a cap is: a command template, the values of its placeholders, and numbers that come back.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO

from msgspec import structs

from spillscan.advice.sweep.loops import called, spill_free
from spillscan.advice.sweep.model import Curve, Knob, Point, Setting, Timing, Value
from spillscan.advice.sweep.toolkits import end, held_back
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count
from spillscan.output.safe import printable

INTERRUPTED = "interrupted"
"""The failure of what Ctrl-C left unmeasured."""

_TAIL_BYTES = 1 << 20
_LONGEST_REASON = 200
_END_SECONDS = 5
"""A program that was killed is gone sooner."""


def placeholders(value: Value | Setting) -> dict[str, Value]:
    """What is put for ``{NAME}`` at a value of the sweep: of a plain value ``cap``; of a point its label as ``point``,
    blanks as ``-`` (``cap-64-TILE=16``, ``as-is``), the registers of a cap as ``cap``, and the values of its axes by
    their names (``TILE``, ``opt-level``)."""
    if not isinstance(value, Setting):
        return {"cap": value}
    found: dict[str, Value] = {each.name: each.value for each in value.knobs if each.value}
    if value.kind == "cap" and value.registers is not None:
        found["cap"] = value.registers
    return found | {"point": value.label.replace(" ", "-")}


def words_of(template: str, value: Value | Setting) -> tuple[str, ...]:
    """The words of a command line, its placeholders filled in after it was split as a shell splits it.

    A value therefore never becomes more than a part of one word, and no shell runs unless the user writes one
    (``sh -c '…'``). Other braces stay as they are. :class:`UsageError` where the template cannot be split, is empty,
    or lacks a placeholder.
    """
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise UsageError(f"the command {template!r} cannot be split into words: {error}", "close its quotes") from None
    if not words:
        raise UsageError("the command to time is empty", "write the program and its arguments")
    known = placeholders(value)
    names = re.compile("|".join(re.escape(f"{{{name}}}") for name in known))
    if not any(map(names.search, words)):
        raise UsageError(
            f"the command {template!r} is the same for every value",
            f"write {' or '.join(f'{{{name}}}' for name in known)} where it differs",
        )
    return tuple(names.sub(lambda found: str(known[found[0][1:-1]]), word) for word in words)


def to_run(template: str, settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """The points at which a command can be run: those that have a value for each of its placeholders.

    :class:`UsageError` where there is none, and where the command is the same at two of them.
    """
    names = {name for each in settings for name in placeholders(each)}
    if "{cap}" in template and "cap" not in names:
        raise UsageError("--run has no cap to run at", "give --vary cap=32,64,128, or write {point}")
    used = {name for name in names if f"{{{name}}}" in template}
    able = [each for each in settings if used <= placeholders(each).keys()]
    seen: dict[tuple[str, ...], Setting] = {}
    for each in able:
        words = words_of(template, each)
        if (other := seen.setdefault(words, each)) != each:
            both = f"{other.label} and {each.label}"
            raise UsageError(f"the command {template!r} is the same at {both}", "write {point} where it differs")
    return tuple(able)


def order(number: int, rounds: int) -> Iterator[tuple[int, int]]:
    """(round, index) of every run: each round takes all of them once, every other round from the end, so that neither a
    warming machine nor a place in the round favours one.
    """
    for turn in range(rounds):
        yield from ((turn, index) for index in (range(number) if turn % 2 == 0 else reversed(range(number))))


def time_runs(
    template: str,
    values: Sequence[Value | Setting],
    runs: int,
    warmups: int,
    timeout_s: float,
    *,
    measure: str | None = None,
    watch: Callable[[Value | Setting], None] | None = None,
) -> tuple[Timing, ...]:
    """Run ``template`` for each of ``values``: ``warmups`` rounds that do not count, then ``runs`` rounds that do.

    ``values`` are put for the :func:`placeholders`. ``measure`` is a regular expression of what the program prints: its
    first group (without groups, all of it) at its last match is the figure, in the program's own unit; without it a
    figure is wall seconds, process start included. ``watch`` gets the value of each run that is about to begin.

    A run that fails, takes longer than ``timeout_s`` or prints no figure ends the runs of its value, and says so in
    ``failure``. Ctrl-C ends the program that runs, and what was measured comes back; the rest is ``INTERRUPTED``.
    One :class:`Timing` a value, in their order. :class:`UsageError` where the call makes no sense.
    """
    if runs < 1 or warmups < 0 or not timeout_s > 0:
        raise UsageError("nothing to time", "ask for at least one run, and for a timeout above 0")
    pattern = pattern_of(measure)
    commands = [words_of(template, value) for value in values]
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
    """``measure``, compiled. :class:`UsageError` where it is not a regular expression."""
    try:
        return None if measure is None else re.compile(measure)
    except re.error as error:
        raise UsageError(f"{measure!r} is not a regular expression: {error}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the program's process group, and wait for the program.

    Not for ever: an interrupt may have left the lock behind that :mod:`subprocess` waits with.
    """
    end(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL_BYTES))
    return output.read().decode(errors="replace")


def _line(reason: str) -> str:
    return printable(reason, _LONGEST_REASON)


_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def with_times(curves: Sequence[Curve], timings: Sequence[Timing]) -> list[Curve]:
    """``curves`` with the timing of each point, the fastest of them, and whether fewer spills were faster.

    The times are the program's: curves of several kernels, archs and releases share them.
    """
    by_setting = {timing.value: timing for timing in timings}
    return [_timed(curve, by_setting) for curve in curves]


def _timed(curve: Curve, by_setting: Mapping[Value | Setting, Timing]) -> Curve:
    points = tuple(structs.replace(point, timing=by_setting.get(point.setting)) for point in curve.points)
    return replace(curve, points=points, measured=fastest(points), spills_and_times=tuple(against_spills(points)))


def fastest(points: Sequence[Point]) -> str:
    """``fastest measured: cap 128, 3.04 ms``, and the points whose runs overlap with its runs: so few runs do not show
    which of these is faster. Empty where nothing was measured.
    """
    best = winner(points)
    if best is None or best.timing is None:
        return ""
    slowest = max(best.timing.figures)
    near = [
        point.setting.label
        for point in points
        if point is not best and _counts(point) and point.timing and min(point.timing.figures) <= slowest
    ]
    alike = f" (not to be distinguished from {', '.join(near)})" if near else ""
    return f"fastest measured: {best.setting.label}, {figure(best.timing)}{alike}"


def against_spills(points: Sequence[Point]) -> Iterator[str]:
    """Whether fewer spills were faster, as far as runs show: each point that spills and whose runs overlap with those
    of the first point without spills, or are all below them; how much longer the others take; and the fastest point,
    where the first without spills is slower than it in every run. Of points that differ in more than registers, those
    are held against each other that do not, as far as there are such.
    """
    groups: dict[tuple[Knob, ...], list[Point]] = {}
    able = [each for each in points if _counts(each) and each.spill_bytes is not None]
    for each in able:
        groups.setdefault(each.setting.knobs, []).append(each)
    both = [group for group in groups.values() if len({bool(each.spill_bytes) for each in group}) == 2]
    for group in both or [able]:
        spilling, clean = [each for each in group if each.spill_bytes], spill_free(group)
        best = min(group, key=_median, default=None)
        if clean and best is not None and _median(best) > 0:
            yield from _against(spilling, clean[0], best)


def _against(spilling: Sequence[Point], first: Point, best: Point) -> Iterator[str]:
    it = f"{called(first)}, the first without spills"
    mine, slower = _figures(first), []
    for point in spilling:
        its = _figures(point)
        if min(its) > max(mine):
            slower.append(_median(point) / _median(first))
            continue
        how = "is as fast as" if max(its) >= min(mine) else "is faster than"
        figures = f"{_figure(point)} against {_figure(first)}"
        yield f"{called(point)}: spills {point.spill_bytes:,} B, but {how} {it} ({figures})"
    if slower:
        least, most = (f"{times:.4g}" for times in (min(slower), max(slower)))
        other = " other" if len(slower) < len(spilling) else ""
        many = f"{count(len(slower), 'point')} that spill take" if slower[1:] else "point that spills takes"
        yield f"the{other} {many} {least if least == most else f'{least} to {most}'} times as long as {it}"
    if spilling and min(mine) > max(_figures(best)):
        factor = f"{_median(first) / _median(best):.4g} times as long as"
        yield f"{it}, takes {_figure(first)}, {factor} {called(best)} ({_figure(best)})"


def _figures(point: Point) -> tuple[float, ...]:
    return point.timing.figures if point.timing else ()


def _figure(point: Point) -> str:
    return figure(point.timing) if point.timing else "-"


def winner(points: Sequence[Point]) -> Point | None:
    """The point of the least median; caps that the kernel's own bounds override are none of its points."""
    return min(filter(_counts, points), key=_median, default=None)


def _median(point: Point) -> float:
    return (point.timing and point.timing.median) or 0.0


def _counts(point: Point) -> bool:
    """A cap at which a run failed is no winner; one that the user's Ctrl-C cut short may be."""
    timing = point.timing
    return not point.overridden and timing is not None and bool(timing.figures) and timing.failure in ("", INTERRUPTED)


def figure(timing: Timing) -> str:
    """The median: ``3.04 ms`` of seconds, ``3.04`` of a unit that only the program knows; ``-`` without any."""
    middle = timing.median
    if middle is None:
        return "-"
    if timing.unit != "s":
        return f"{middle:.4g}"
    scale, unit = next((each for each in _SCALES if middle >= each[0]), _SCALES[-1])
    return f"{middle / scale:{',.0f' if middle >= 100 * scale else '.3g'}} {unit}"
