"""Compiler launcher: runs one compiler call of a recorded build, and records its status, its report and its files.

Imports few modules, since it starts once per call. Of the compiler's options it knows only those that name outputs and
options files.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import file_digest
from itertools import pairwise
from typing import Any, NoReturn

from spillscan.builds.compilation import asks_for_report, split
from spillscan.builds.pieces import code_of
from spillscan.builds.tree import is_since

RUN = "SPILLSCAN_RUN"
"""Environment variable with the folder of a run's calls. The folder's name begins with the run's process id."""
REPORT = re.compile(
    rb"^(?:(?:ptxas|nvlink) ?(?:\S.*?, line \d+; )?info *: (?:\d+ bytes gmem|Compiling entry function |Function "
    rb"|Processing |[Uu]sed \d+ registers|Compile time = |\d+ bytes stack frame, )"
    rb"|(?:ptxas *\.)? +\d+ bytes stack frame, \d+ bytes spill stores, ).*\n",
    re.MULTILINE,
)
"""Lines that ``-Xptxas -v`` adds."""
_DRY_RUN = frozenset(("--dryrun", "-dryrun", "-#"))
_OUTPUTS = ("-o", "--output-file", "-odir", "--output-directory", "-MF", "--dependency-output", "-time", "--time")
_OPTIONS_FILES = ("-optf", "--options-file")
_EXEC = re.compile(r"\A#!/bin/(?:ba|da)?sh\n(?:#[^\n]*\n)*exec ([^\s\"'$]+/nvcc) \"\$@\"\n\Z")
_OPENED = re.compile(r"^\.+ (.+)$|(?<=[^\\] )((?:\\.|[^\s\\])+)", re.MULTILINE)
_BINARY = (b"\x7fELF", b"!<arch>", b"\x50\xed\x55\xba", b"MZ\x90")
_INTERMEDIATE = re.compile(r"/tmpxft_|\.(?:cudafe1\.stub|fatbin|reg|module_id)\.c\Z|_dlink\.\w+\.c\Z")
_SYSTEM = ("/usr/include/", "/usr/lib", "/lib")
_LARGEST_BYTES = 64 << 20
_MOST_WORDS = 16


def main(trace: str, *command: str) -> NoReturn:
    """Run ``command`` as its caller would, record it, and exit with its status.

    ``trace``: the file that the launcher script wrote; it remains if the call never ends.
    """
    os.environ.pop(RUN, None)
    try:
        began = os.stat(trace).st_mtime_ns
        place = f"{trace}-{began}"  # unlike process ids, never used again
        os.rename(trace, f"{place}.began")
        printed = os.open(f"{place}.stderr", os.O_RDWR | os.O_CREAT)
    except OSError:  # a full disk, or the run is over: continue the build unrecorded
        os.execvp(command[0], list(command))
    is_nvcc = os.path.basename(command[0]).startswith("nvcc")
    program, headers = behind_scripts(os.path.realpath(command[0])), f"{place}.headers"
    lists = {"SUNPRO_DEPENDENCIES": headers, "CC_PRINT_HEADERS": "1", "CC_PRINT_HEADERS_FILE": headers}
    is_real = os.path.basename(program).startswith("nvcc") and _kind(program) == "binary"  # a cache must not see them
    if is_nvcc and is_real and os.environ.keys().isdisjoint(lists):
        os.environ.update(lists)
    words, texts = _words(command)
    adds = ["-Xptxas", "-v"] if is_nvcc and _DRY_RUN.isdisjoint(command) else []
    status, report = _ran([command[0], *adds, *command[1:]], printed)
    with suppress(BrokenPipeError):
        sys.stderr.buffer.write(REPORT.sub(b"", report) if adds and not asks_for_report(" ".join(words)) else report)
        sys.stderr.flush()
    opened = _headers(headers, program)
    call: dict[str, Any] = {"began_ns": began, "command": words, "folder": os.getcwd(), "headers": opened is not None}
    call |= {"ancestors": [*_ancestors(place)], "report": report[:_LARGEST_BYTES].decode(errors="replace")}
    # file times are coarse: a file with the same time was there before
    call |= {"status": status, **_files(words, texts.union(opened or ()), began + 1, compiled=b" info " in report)}
    with suppress(OSError):
        with open(f"{place}.part", "w", encoding="ascii") as file:
            file.write(ascii(call))
        os.rename(f"{place}.part", f"{place}.call")
        os.unlink(f"{place}.began")
    if status < 0:  # so that the caller sees the same status
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


# ---- files --------------------------------------------------------------------------------------------------------


def _words(command: Sequence[str]) -> tuple[list[str], set[str]]:
    """Words of a command with environment variables and options files expanded, and the paths of these files."""
    before, after = (split(os.environ.get(name, "")) for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"))
    waiting = deque((*before, *command[1:], *after))
    words, texts = [command[0]], set[str]()
    while waiting:
        word = waiting.popleft()
        if word in _OPTIONS_FILES and waiting:
            word += f"={waiting.popleft()}"
        option, _, value = word.partition("=")
        named = word[1:] if word.startswith("@") else value if option in _OPTIONS_FILES else ""
        files = [each for each in named.split(",") if each not in texts and _kind(each) == "text"]
        words += [] if files else [word]
        texts.update(files)
        waiting.extendleft(reversed([inner for file in files for inner in split(_text(file))]))
    return words, texts


def _text(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(_LARGEST_BYTES)
    return ""


def _files(words: list[str], read: set[str], since: int, *, compiled: bool) -> dict[str, Any]:
    """Files of a call: sources and others that it ``read`` with digests, and those that it wrote."""
    values = [(option, value) for option, _, value in (word.partition("=") for word in words)]
    outputs = {value for option, value in (*pairwise(words), *values) if option in _OUTPUTS}
    named = dict.fromkeys((*words[1:], *(value for _, value in values)))
    kinds = {path: kind for path in named if (kind := _kind(path))}
    wrote = [path for path in kinds if is_since(path, since) and (kinds[path] == "binary" or code_of(path).pieces)]
    sources = [path for path, kind in kinds.items() if kind == "text" and path not in outputs]
    if compiled and not wrote:  # the output is not named
        folders = filter(os.path.isdir, (".", *outputs))
        near = [os.path.join(folder, name) for folder in folders for name in os.listdir(folder)]
        wrote = [path for path in near if _kind(path) == "binary" and is_since(path, since)]
    return {
        "sources": sources,
        "files": {os.path.abspath(path): digest(path, since) for path in (*sources, *read)},
        "wrote": wrote,
        "pieces": sorted({piece for path in wrote for piece in code_of(path).pieces}),
        "folders": sorted({os.path.dirname(os.path.realpath(path)) for path in (*kinds, *wrote)}),
    }


def _kind(path: str) -> str:
    """``text`` or ``binary``; empty if ``path`` is not a readable regular file."""
    with suppress(OSError, ValueError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return "binary" if file.read(8).startswith(_BINARY) else "text"
    return ""


def digest(path: str, started: int | None = None) -> str:
    """SHA-256 of a file; empty if there is none, or if it changed since ``started``."""
    with suppress(OSError, ValueError):
        if os.path.isfile(path) and (started is None or not is_since(path, started)):
            with open(path, "rb") as file:
                return file_digest(file, "sha256").hexdigest()
    return ""


def _headers(path: str, compiler: str) -> set[str] | None:
    """Files that the host compiler opened, except the toolkit's and the system's; ``None`` if unknown.

    g++ appends make rules to ``path``, and clang lines with leading dots.
    """
    top = os.path.dirname(os.path.dirname(compiler))
    left_out = (*_SYSTEM, *((top + os.sep,) if top not in ("/", "/usr", "/usr/local") else ()))
    opened = _OPENED.findall(text := _text(path).replace("\\\n", " "))
    paths = {dotted or listed.replace("\\ ", " ").replace("$$", "$") for dotted, listed in opened}
    own = {each for each in paths if not os.path.realpath(each).startswith(left_out) and not _INTERMEDIATE.search(each)}
    return own if text else None


# ---- processes ----------------------------------------------------------------------------------------------------


def _ancestors(place: str) -> Iterator[list[str]]:
    """Working directory and command line of each ancestor process up to the run, the nearest first."""
    number, run = os.getppid(), os.path.basename(os.path.dirname(place)).partition("-")[0]
    with suppress(OSError, ValueError, IndexError):
        while str(number) != run:
            words = _text(f"/proc/{number}/cmdline").split("\0")[:_MOST_WORDS]
            yield [os.readlink(f"/proc/{number}/cwd"), *words]
            number = int(_text(f"/proc/{number}/stat").rpartition(")")[2].split()[1])


def behind_scripts(path: str) -> str:
    """The program that the script ``path`` only forwards to, else ``path``.

    nvcc locates its toolkit relative to the name by which it is called.
    """
    call = _EXEC.match(_text(path)) if _kind(path) == "text" else None
    return os.path.realpath(call[1]) if call else path


def _ran(command: list[str], printed: int) -> tuple[int, bytes]:
    """Run a compiler; returns (status, standard error). A negative status is the signal that ended it.

    ``printed``: a file for standard error; a pipe would stay open while anything that the compiler started lives.
    """
    try:
        child = os.posix_spawnp(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, printed, 2)])
    except OSError as error:
        return 127 if isinstance(error, FileNotFoundError) else 126, f"{command[0]}: {error.strerror}\n".encode()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to both
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(child, received))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(printed, "rb") as file:
        file.seek(0)
        return status, file.read()
