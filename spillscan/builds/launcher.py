"""Runs a compiler as its caller would: same arguments, same exit status, same output but for the figures of ``-v``,
which are taken out; warnings, errors and everything else pass.

``figures.regex`` is derived from the grammars, because a launcher starts once an object and has no time to read them:
``python -m tests.builds.test_filter`` writes it, and a test holds it true.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache

from spillscan.builds import compilation
from spillscan.builds.compilation import Compilation
from spillscan.builds.records import RUN, Call, Record

NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""What shells return for a command that cannot be run, or is not there."""

_INSIDE = "SPILLSCAN_INSIDE"
"""Set for what a watched compiler starts: a launcher within a launcher keeps nothing twice."""
_LARGEST_RESPONSE_BYTES = 1 << 20

_FIGURES_OPTIONS = {"nvcc": ("-Xptxas", "-v"), "clang": ("-Xcuda-ptxas", "-v"), "ptxas": ("-v",), "nvlink": ("-v",)}


def run(command: Sequence[str], *, verbose: bool, watched: bool = False) -> int:
    """Run ``command`` and return its exit status; ``verbose`` adds the option that makes a compiler report its figures.

    What it is asked to make gets a record file; ``watched``: none. While ``spillscan run`` watches, it gets the call,
    and figures are asked for. What makes nothing is run in place of this process, and so is what is only ``watched``
    where none watches.
    """
    folder = os.environ.get(RUN, "")
    if os.environ.get(_INSIDE):  # the call is kept already
        folder = ""
    if watched and not folder:
        return _become(command)
    words = list(compilation.expand(command, _text_of))
    made = compilation.parse(words)
    if made is None:
        return _become(command)
    compiles, asked = compilation.makes_machine_code(words), asks_figures(words)
    if not asked and (verbose or (folder and compiles)):
        command = with_figures(command, made)
    call = Call(folder, words, command[made.tool_index], made.paths if compiles else ()) if folder else None
    record = None if watched else _record(made, command)
    if record is None and (call is None or not compiles):
        if call is not None:
            call.end(None)
        return _become(command)
    return _accompany(command, made, record, call, strips=not asked or not watched)


def _accompany(
    command: Sequence[str], made: Compilation, record: Record | None, call: Call | None, *, strips: bool
) -> int:
    """Run a compiler, and keep what it prints. ``strips``: lines of figures are not passed on."""
    seen, printed = _channel()
    try:
        child = subprocess.Popen(command, stderr=printed, env={**os.environ, **({_INSIDE: "1"} if call else {})})
    except OSError as error:
        if record is not None:
            record.drop(stale=False)
        if call is not None:
            call.end(NOT_FOUND)
        return _cannot_run(command, error)
    finally:
        os.close(printed)
    _stand_aside(child)
    if strips and asks_figures(command):
        figures_lines()  # the grammar is read while the compiler works
    sinks = [each.write for each in (record, call) if each is not None]
    lines = copy(seen, sys.stderr.fileno(), sinks, child=child, strips=strips)
    status = child.wait()
    if call is not None:
        call.end(status)
    if record is not None:
        prevented = None
        if lines.figures or status or compilation.makes_machine_code(command):
            prevented = record.keep(status)
        else:
            record.drop(stale=True)
        if prevented is not None:
            _no_record(made.object, prevented)
    return status if status >= 0 else _die_of(-status)


def _channel() -> tuple[int, int]:
    """(where to read, where the compiler writes): a terminal where standard error is one, since compilers colour what
    a person reads."""
    if os.name != "posix" or not os.isatty(sys.stderr.fileno()):
        return os.pipe()
    import termios

    seen, printed = os.openpty()
    settings = termios.tcgetattr(printed)
    settings[1] = 0  # as written: the terminal behind adds what it adds
    termios.tcsetattr(printed, termios.TCSANOW, settings)
    return seen, printed


def _text_of(path: str) -> str | None:
    """The text of a response file; ``None`` where it is none."""
    try:
        if os.path.getsize(path) > _LARGEST_RESPONSE_BYTES:
            return None
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except (OSError, ValueError):
        return None


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
        return Record(made.object, command, made.paths)
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
    with suppress(OSError):  # nobody handles SIGKILL
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


EXPRESSION = os.path.join(os.path.dirname(__file__), "figures.regex")

LONGEST_HELD_BYTES = 1 << 20
"""An unfinished line that is longer is passed on as it comes: no figures line is that long."""

IDLE_SECONDS = 0.1
"""How long the beginning of a line is held before it is passed on: a prompt may be waited for."""
READ_BYTES = 1 << 16

_LANDMARK = re.compile(rb"ptxas|nvlink|info    : | bytes stack frame, ")


class Filter:
    """One stream. Whole lines are judged; an unfinished one is held until it is finished or :meth:`flush` is called."""

    def __init__(self, strips: bool = True) -> None:
        self._held = b""
        self._strips = strips
        self._inside = False
        """The beginning of the line that comes now was passed on, so its end must be."""
        self.figures = False
        """Whether any line of figures came by."""

    def feed(self, data: bytes) -> bytes:
        """What of ``data``, and of what was held before it, is to be passed on."""
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._held += data
            return self.flush() if self._inside or len(self._held) > LONGEST_HELD_BYTES else b""
        whole, self._held = self._held + data[:cut], data[cut:]
        passed = 0
        if self._inside:
            passed = whole.index(b"\n") + 1
            self._inside = False
        return whole[:passed] + self._without_figures(whole[passed:])

    def flush(self) -> bytes:
        """What is held: it is waited for, as a prompt is, or the stream has ended."""
        held, self._held = self._held, b""
        self._inside = self._inside or bool(held)
        return held

    @property
    def holds(self) -> bool:
        """Whether the beginning of a line is held."""
        return bool(self._held)

    def _without_figures(self, lines: bytes) -> bytes:
        if not _LANDMARK.search(lines):
            return lines
        rest, count = figures_lines().subn(b"", lines)
        self.figures = self.figures or count > 0
        return rest if self._strips else lines


def copy(
    source: int,
    target: int,
    sinks: Iterable[Callable[[bytes], object]],
    *,
    child: subprocess.Popen[bytes] | None = None,
    strips: bool = True,
) -> Filter:
    """Read descriptor ``source`` until it or the ``child`` that writes to it ends: all of it goes to the ``sinks``, all
    but figures to descriptor ``target``; figures, too, unless it ``strips``.

    Returns the filter, which knows whether there were figures. A ``target`` that has no reader any more is left alone.
    """
    lines = Filter(strips)
    out = _Writer(target)
    ended = os.pidfd_open(child.pid) if child is not None and hasattr(os, "pidfd_open") else -1
    while data := _read(source, ended, lines, out):
        for keep in sinks:
            keep(data)
        out.write(lines.feed(data))
    out.write(lines.flush())
    return lines


def _read(source: int, ended: int, lines: Filter, out: _Writer) -> bytes:
    """What comes next; nothing at the end. What a killed compiler started may hold ``source`` open: its own end
    counts, and what was written before."""
    waits = [source, ended] if ended >= 0 else [source]
    if os.name == "posix" and not (ready := select.select(waits, [], [], IDLE_SECONDS if lines.holds else None)[0]):
        out.write(lines.flush())
        ready = select.select(waits, [], [])[0]
    if os.name == "posix" and source not in ready:
        return b""
    try:
        return os.read(source, READ_BYTES)
    except OSError:  # a terminal whose other side is closed
        return b""


class _Writer:
    def __init__(self, target: int) -> None:
        self._target = target
        self._open = True

    def write(self, data: bytes) -> None:
        """All of ``data``."""
        rest = memoryview(data)
        try:
            while rest and self._open:
                rest = rest[os.write(self._target, rest) :]
        except BrokenPipeError:
            self._open = False


@cache
def figures_lines() -> re.Pattern[bytes]:
    """Matches each line of figures, with whatever CI services put before it."""
    with open(EXPRESSION, "rb") as file:
        return re.compile(file.read(), re.MULTILINE)
