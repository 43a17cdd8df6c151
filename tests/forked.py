"""Runs the command as users do, without the second that an interpreter needs to start and import.

A process that has imported everything, and has read and shown one log, waits: tables and patterns are made once. For
each call it forks a child, which gets the call's arguments, folder, environment and standard streams, and ends as the
command ends. What the interpreter itself reads from the environment needs a start of its own: :func:`suits` says which
calls do.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

import spillscan
from spillscan.cli import entry, main
from spillscan.reading import grammar
from tests.reaching import INLINE

ROOT = Path(__file__).resolve().parent.parent
_OWN = ("PYTHON", "LC_", "LANG", "MALLOC", "LD_")
"""Prefixes of environment variables that change the interpreter or the libraries, not the command."""
_DEMO = tuple(str(ROOT / "fixtures" / "demo" / name) for name in ("base.log", "head.log"))
_FIRST = (
    ("explain", "devices"),
    ("scan", _DEMO[1], "-f", "text", "-f", f"html:{os.devnull}"),
    ("check", _DEMO[1]),
    ("diff", *_DEMO, "-f", "text", "-f", f"html:{os.devnull}"),
)
"""Calls that fill caches shared by commands."""


def suits(environment: Mapping[str, str] | None) -> bool:
    """Whether a call in this environment may be forked."""
    if environment is None or os.name != "posix":
        return os.name == "posix"
    names = {name for name in {*environment, *os.environ} if name.startswith(_OWN) and name != "PYTHONPATH"}
    return all(environment.get(name) == os.environ.get(name) for name in names)


def run(
    arguments: Sequence[str], stdin: bytes, folder: str | Path, environment: Mapping[str, str] | None
) -> subprocess.CompletedProcess[bytes]:
    """Result of ``python -m spillscan`` with ``arguments``."""
    if os.environ.get(INLINE):
        return _inline(arguments, stdin, folder, environment)
    ours, theirs = zip(*(_ends(at) for at in range(3)), strict=True)
    request = {"arguments": arguments, "folder": str(folder), "environment": dict(environment or os.environ)}
    server = _server()
    socket.send_fds(server, [json.dumps(request).encode() + b"\n"], list(theirs))
    for descriptor in theirs:
        os.close(descriptor)
    said: list[bytes] = [b"", b""]
    tasks = [threading.Thread(target=_write, args=(ours[0], stdin))]
    tasks += [threading.Thread(target=_read, args=(ours[at + 1], said, at)) for at in range(2)]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    status = array.array("i", server.recv(4))[0]
    return subprocess.CompletedProcess([sys.executable, "-m", "spillscan", *arguments], status, *said)


PROGRAM = """{head}import array, json, os, socket, sys
request = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
line = socket.socket(fileno={descriptor})
socket.send_fds(line, [json.dumps(request).encode() + b"\\n"], [0, 1, 2])
sys.exit(array.array("i", line.recv(4))[0])
"""


def shebang(*options: str) -> str:
    """First lines of a Python program that runs in any folder: ``#!`` allows no path with a blank."""
    words = " ".join([f'"{sys.executable}"', *options, '"$0" "$@"'])
    return f"#!/bin/sh\n'''exec' {words}\n' '''\n"


def program(path: Path) -> int:
    """Write a program that is the command, for scripts that call it; one call at a time.

    Returns the descriptor that the script's process must inherit.
    """
    descriptor = _server().fileno()
    path.write_text(PROGRAM.format(head=shebang("-IS"), descriptor=descriptor))
    path.chmod(0o755)
    return descriptor


def _inline(
    arguments: Sequence[str], stdin: bytes, folder: str | Path, environment: Mapping[str, str] | None
) -> subprocess.CompletedProcess[bytes]:
    """The same as a call of a function, for who watches which lines run. What a command leaves in memory stays."""
    kept = os.getcwd(), dict(os.environ), sys.argv, sys.stdin, gc.isenabled()
    said = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace") for _ in range(2)]
    try:
        os.chdir(folder)
        _replace_environment(environment or kept[1])
        sys.argv = [str(ROOT / "spillscan" / "__main__.py"), *arguments]
        sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        with contextlib.redirect_stdout(said[0]), contextlib.redirect_stderr(said[1]):
            try:
                status = main()
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else 0
    finally:
        os.chdir(kept[0])
        _replace_environment(kept[1])
        sys.argv, sys.stdin = kept[2], kept[3]
        if kept[4]:
            gc.enable()
    for stream in said:
        stream.flush()
    output = [stream.buffer.getvalue() for stream in said]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess([sys.executable, "-m", "spillscan", *arguments], status, *output)


def _replace_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _ends(at: int) -> tuple[int, int]:
    """(ours, theirs) of a pipe to standard input, or from one of the other two."""
    reading, writing = os.pipe()
    return (writing, reading) if at == 0 else (reading, writing)


def _write(descriptor: int, data: bytes) -> None:
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
    except BrokenPipeError:
        pass  # the command did not want all of it


def _read(descriptor: int, said: list[bytes], at: int) -> None:
    with open(descriptor, "rb") as stream:
        said[at] = stream.read()


@cache
def _server() -> socket.socket:
    """Our end of the line to the process that waits; it ends when we do. A product that cannot be imported says so."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", f"from tests.forked import serve; serve({theirs.fileno()})"]
    with tempfile.TemporaryFile() as errors:
        subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stderr=errors)
        theirs.close()
        if not ours.recv(4):
            errors.seek(0)
            raise RuntimeError(errors.read().decode())
    return ours


def serve(descriptor: int) -> None:
    """Fork a child for each request, until nobody asks any more."""
    for module in pkgutil.walk_packages(spillscan.__path__, "spillscan."):
        if module.name != "spillscan.__main__":
            importlib.import_module(module.name)
    for name in ("ptxas", "nvlink", "prefix", "buildstep", "buildfailure"):
        grammar.load(name)
    for words in _FIRST:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main([*words])
    assert threading.active_count() == 1, "a fork would lose the others"
    line = socket.socket(fileno=descriptor)
    line.send(b"here")
    while True:
        data, streams, _, _ = socket.recv_fds(line, 1 << 20, 3)
        if not data:
            return
        while not data.endswith(b"\n"):
            data += line.recv(1 << 20)
        child = os.fork()
        if child == 0:
            line.close()
            _command(json.loads(data), streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        line.send(array.array("i", [os.waitstatus_to_exitcode(status)]).tobytes())


def _command(request: Mapping[str, object], streams: Sequence[int]) -> NoReturn:
    """Be the command."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    _replace_environment(request["environment"])  # type: ignore[arg-type]
    os.chdir(str(request["folder"]))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    errors = {"stdin": "strict", "stdout": "strict", "stderr": "backslashreplace"}
    for number, (name, handling) in enumerate(errors.items()):
        raw = io.FileIO(number, "rb" if number == 0 else "wb", closefd=False)
        stream = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
        text = io.TextIOWrapper(stream, encoding="utf-8", errors=handling, line_buffering=number == 2)
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    sys.argv = [str(ROOT / "spillscan" / "__main__.py"), *request["arguments"]]  # type: ignore[misc]
    entry()
