"""Mangled names that may cost more than they weigh, demangled by a process of its own, which may end of them.

LLVM's demangler goes down as deep as a name nests, and writes a part of a name each time it is referred to: a hundred
characters may ask for more stack, or memory, than there is. There is no bound in it.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_DEEP = 2_500
"""So many characters may nest too deep for the smallest stack: 627 bytes a character at most (``_ZZZ…``, measured)."""
_MOST, _MOST_APART = 1 << 20, 1 << 18
"""Characters that a name might become with us, and that it may become: real ones have grown to 40 times their size."""
_LONGEST = 100_000
"""Names are demangled up to this."""
_STACK, _MEMORY = 96 << 20, 320 << 20
"""Bytes that the process may take; with 96 MB of stack, the longest name that nests."""
_ENDED = 8
"""After so many names that ended it, none is tried."""
_SCRIPT = f"""
import sys, threading
sys.path[:] = sys.argv[1:]
import pycxxfilt
def work():
    for line in sys.stdin:
        try:
            name = pycxxfilt.itanium_demangle(line[:-1]) or ""
        except ValueError:
            name = ""
        print(name if len(name) <= {_MOST_APART} else "", flush=True)
threading.stack_size({_STACK})
thread = threading.Thread(target=work)
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY}, {_MEMORY}))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, ValueError):
    pass
thread.start()
"""


def doubtful(mangled: str) -> bool:
    """Whether a name may nest too deep, or become too long: of the parts that are referred to, each may stand in the
    next three times, so that a third of the references counts as an exponent."""
    if len(mangled) >= _DEEP:
        return True
    each_ends = mangled.count("_")
    return _grown(each_ends, mangled) and _grown(len(_REFERENCE.findall(mangled)), mangled)


def _grown(references: int, mangled: str) -> bool:
    grown: float = len(mangled) * 3.0 ** min(references / 3, 99)
    return grown > _MOST


_REFERENCE = re.compile(r"S[0-9A-Z]*_|T[0-9L]*_")


class _Helper:
    """The process, started when it is needed; another for each process that forked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0
        self._ended: set[str] = set()

    def ask(self, mangled: str) -> str | None:
        """What a name says; ``None`` where it says nothing, or too much."""
        if len(mangled) > _LONGEST or not mangled.isascii() or not mangled.isprintable():
            return None
        with self._lock:
            if mangled in self._ended or len(self._ended) >= _ENDED:
                return None
            try:
                process = self._started()
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(f"{mangled}\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            except OSError:
                answer = ""
            if not answer:
                self._ended.add(mangled)
                self.end()
            return answer[:-1] or None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._owner != os.getpid():
            import atexit
            import subprocess  # few logs have such names

            self._owner = os.getpid()
            atexit.register(self.end)
            words = [sys.executable, "-I", "-S", "-c", _SCRIPT, *filter(None, sys.path)]
            pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
            self._process = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=quiet, encoding="utf-8", errors="replace"
            )
        return self._process

    def end(self) -> None:
        """Let it go."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            with suppress(OSError):
                process.communicate()


demangled = _Helper().ask
"""The full C++ name of a :func:`doubtful` one; ``None`` where it has none, or one too long."""
