"""Compiler launcher: runs a compiler for a watched build, and keeps how the call began, ended and what it reported.

It interprets no option: arguments, folder and files are recorded as they are. Nothing but the standard library is
imported, because it starts once per call. ``figures.regex`` is derived from the grammars
(``python -m tests.builds.test_filter`` writes it, and a test compares them).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise

RUN = "SPILLSCAN_RUN"
"""Environment variable with the folder in which a run keeps its calls; without it, the launcher only runs the
compiler."""
FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""Exit statuses of a shell for a command that cannot be run, or is missing."""
_COMPILER = re.compile(r"(?:nvcc|clang(?:\+\+)?(?:-\d+)?)(?:\.exe)?\Z")
_EXEC = re.compile(r"\A#!/bin/(?:ba|da)?sh\n(?:#[^\n]*\n)*exec ([^\s\"'$]+/nvcc) \"\$@\"\n\Z")
_DRY_RUN = frozenset(("--dryrun", "-dryrun", "-#"))
_ASKS = re.compile(r"(?:^| )(?:--?res(?:ource)?-usage|(?:-Xptxas|--ptxas-options)[ =,]\S*?(?:-v|--verbose)\b)")
_OUTPUT_OPTIONS = frozenset(("-o", "--output-file", "-MF", "--dependency-output", "-time", "--time"))
_BINARY = (b"\x7fELF", b"!<arch>", b"\x50\xed\x55\xba", b"MZ")
_SYSTEM = ("/usr/include/", "/usr/lib", "/lib")
_LARGEST_REPORT_BYTES = 64 << 20
_LARGEST_TEXT_BYTES = 1 << 20
_LONGEST_ANCESTRY = 64


def main(command: Sequence[str]) -> int:
    """Run ``command`` as its caller would; its exit status."""
    folder = os.environ.get(RUN, "")
    if not os.path.isdir(folder) or not _COMPILER.match(os.path.basename(command[0])):
        with suppress(OSError):
            os.unlink(os.path.join(folder, f"{os.getpid()}.began"))
        return _become(command)
    key = os.path.join(folder, f"{os.getpid()}-{os.times().elapsed:.2f}")
    call = _begun(command)
    _write(key, call)  # a call that never ends has no status
    with suppress(OSError):
        os.unlink(os.path.join(folder, f"{os.getpid()}.began"))
    started = os.stat(f"{key}.json").st_mtime_ns if os.path.exists(f"{key}.json") else 0
    environment = {name: value for name, value in os.environ.items() if name != RUN}
    is_nvcc = os.path.basename(command[0]).startswith("nvcc")
    headers = f"{key}.headers" if is_nvcc and _is_program(command[0]) else ""
    if headers and "SUNPRO_DEPENDENCIES" not in environment and "CC_PRINT_HEADERS" not in environment:
        clang = {"CC_PRINT_HEADERS": "1", "CC_PRINT_HEADERS_FILE": f"{key}.clang"}
        environment |= {"SUNPRO_DEPENDENCIES": headers, **clang}
    else:
        headers = ""
    said = " ".join((*command, *call["environment"].values(), *call["texts"].values()))
    adds = is_nvcc and _DRY_RUN.isdisjoint(command)
    words = [command[0], *(("-Xptxas", "-v") if adds else ()), *command[1:]]
    status, report = _ran(words, environment, strips=adds and not _ASKS.search(said))
    read = None if not headers else _headers(headers, f"{key}.clang", behind_scripts(os.path.realpath(command[0])))
    if read is not None:
        call["files"] |= _digests(read, started)
    call["files"] |= {path: "" for path in call["files"] if _changed_since(path, started)}
    _write(key, {**call, "began_ns": started, "headers": read is not None, "status": status, "report": report})
    for left in (headers, f"{key}.clang"):
        with suppress(OSError):
            os.unlink(left)
    return status if status >= 0 else _die_of(-status)


def _begun(command: Sequence[str]) -> dict[str, dict[str, str]]:
    """The call as it begins, with the digests of the files that its words name."""
    flags = {name: os.environ[name] for name in FLAGS if name in os.environ}
    words = [*command[1:], *(word for value in flags.values() for word in value.split())]
    texts: dict[str, str] = {}
    asks = ("-optf", "--options-file")
    for before, word in pairwise(["", *words]):
        option, _, value = word.partition("=")
        listed = word if before in asks else value if option in asks else word[1:] if word.startswith("@") else ""
        for path in listed.split(","):
            with suppress(OSError, ValueError):
                if path and os.path.getsize(path) <= _LARGEST_TEXT_BYTES:
                    with open(path, encoding="utf-8", errors="surrogateescape") as file:
                        texts[path] = file.read()
    words += [word for text in texts.values() for word in text.split()]
    outputs = {word for before, word in pairwise(["", *words]) if before in _OUTPUT_OPTIONS}
    valued = (each.partition("=") for each in words)
    named = {*words, *(value for option, _, value in valued if option not in _OUTPUT_OPTIONS)} - outputs
    call = {"command": list(command), "folder": os.getcwd(), "environment": flags, "texts": texts}
    return {**call, "ancestors": _ancestors(), "files": _digests({*named, *texts}, None)}  # type: ignore[dict-item]


def _digests(paths: Iterable[str], started: int | None) -> dict[str, str]:
    """SHA-256 of each text among ``paths``; empty for one that changed since ``started``."""
    found = {}
    for path in paths:
        with suppress(OSError, ValueError), open(path, "rb", opener=_no_waiting) as file:
            status = os.fstat(file.fileno())
            if status.st_mode & 0o170000 == 0o100000 and not file.read(8).startswith(_BINARY):
                file.seek(0)
                fresh = started is None or status.st_ctime_ns < started
                found[path] = hashlib.file_digest(file, "sha256").hexdigest() if fresh else ""
    return found


def _no_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO among the words


def _changed_since(path: str, started: int) -> bool:
    with suppress(OSError):
        return os.stat(path).st_ctime_ns >= started
    return False


def _headers(gcc: str, clang: str, compiler: str) -> set[str] | None:
    """The files that the host compiler opened, but for those of the toolkit and the system; ``None`` if unknown."""
    top = os.path.dirname(os.path.dirname(compiler))
    left_out = (*_SYSTEM, *((top + os.sep,) if top not in ("/", "/usr", "/usr/local") else ()))
    found: set[str] | None = None
    for name in (gcc, clang):
        with suppress(OSError), open(name, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
            paths = _of_make(text) if name == gcc else [line.lstrip(". ") for line in text.splitlines()]
            found = {*(found or ()), *paths}
    if found is None:
        return None
    return {path for path in found if not os.path.realpath(path).startswith(left_out) and "/tmpxft_" not in path}


def _of_make(text: str) -> list[str]:
    """The prerequisites in rules of make."""
    joined = text.replace("\\\n", " ")
    rules = (line.partition(": ")[2] for line in joined.splitlines())
    return [word.replace("\\ ", " ").replace("$$", "$") for rule in rules for word in re.findall(r"(?:\\ |\S)+", rule)]


def _ancestors() -> list[list[str]]:
    """Process number, working directory and command line of each ancestor, the nearest first."""
    found = []
    number = os.getppid()
    for _ in range(_LONGEST_ANCESTRY):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                words = file.read(_LARGEST_TEXT_BYTES).decode("utf-8", "surrogateescape").split("\0")[:-1]
            folder = os.readlink(f"/proc/{number}/cwd")
            with open(f"/proc/{number}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        found.append([str(number), folder, *words[:16]])
        number = parent
    return found


def behind_scripts(path: str) -> str:
    """The program that ``path`` calls, if it is a script that only does that: nvcc looks for its toolkit next to the
    name by which it is called."""
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        if found := _EXEC.match(file.read(1 << 12)):
            return os.path.realpath(found[1])
    return path


def _is_program(name: str) -> bool:
    """Whether a compiler is no other script: what one starts may be a cache, which must not see the variables."""
    from shutil import which

    path = behind_scripts(os.path.realpath(which(name) or name))
    with suppress(OSError), open(path, "rb") as file:
        return file.read(4) == b"\x7fELF" and os.path.basename(path).startswith("nvcc")
    return False


def _write(key: str, call: dict[str, object] | dict[str, dict[str, str]]) -> None:
    with suppress(OSError):  # a full disk does not stop a build
        with open(f"{key}.part", "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(call, file)
        os.replace(f"{key}.part", f"{key}.json")


def _ran(command: Sequence[str], environment: dict[str, str], *, strips: bool) -> tuple[int, str]:
    """(status, standard error) of a compiler; below 0 the signal that ended it."""
    seen, printed = _channel()
    try:
        child = subprocess.Popen(command, stderr=printed, env=environment, close_fds=False)
    except OSError as error:
        os.close(printed)
        return _cannot_run(command, error), ""
    os.close(printed)
    _stand_aside(child)
    kept: list[bytes] = []
    copy(seen, sys.stderr.fileno(), [kept.append], child=child, strips=strips)
    return child.wait(), b"".join(kept)[:_LARGEST_REPORT_BYTES].decode("utf-8", "replace")


def _channel() -> tuple[int, int]:
    """(where to read, where the compiler writes): a terminal if standard error is one, since compilers colour what a
    person reads."""
    if os.name != "posix" or not os.isatty(sys.stderr.fileno()):
        return os.pipe()
    import termios

    seen, printed = os.openpty()
    settings = termios.tcgetattr(printed)
    settings[1] = 0  # as written: the terminal behind adds what it adds
    termios.tcsetattr(printed, termios.TCSANOW, settings)
    return seen, printed


def _become(command: Sequence[str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        return _cannot_run(command, error)


def _cannot_run(command: Sequence[str], error: OSError) -> int:
    print(f"spillscan: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
    return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


def _stand_aside(child: subprocess.Popen[bytes]) -> None:
    """Leave signals to the compiler: the terminal sends its own to both, others are passed on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
