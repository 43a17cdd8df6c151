"""A small tree of everything, and what a dataset holds as plain values."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spillscan.history.audit import Plan, Summary, audit
from spillscan.history.dataset import load_build, open_dataset
from spillscan.model import Build
from tests.conftest import FIXTURES

AUDIT = [sys.executable, "-m", "spillscan", "history", "audit", "--label", "v1"]
CUSTOM = """
import os, signal, time
from spillscan.reading.inputs import source

_head = source.Stream.head

def head(self):
    data = _head(self)
    if b"SWALLOWED POISON" in data:
        os.kill(os.getpid(), signal.SIGKILL)
    if b"WAITS AT THE GATE" in data:
        gate = os.environ["GATE"]
        if not os.path.exists(gate + "/open"):
            with open(gate + "/waiting", "w") as file:
                file.write(f"{os.getppid()} {os.getpid()} ")
            os.rename(gate + "/waiting", gate + "/arrived")
        while not os.path.exists(gate + "/open"):
            time.sleep(0.01)
    return data

source.Stream.head = head
"""
"""Put into processes that read: a file that kills whoever reads it, and one at which a reader waits to be killed."""


def tree(folder: Path, copies: int = 1) -> Path:
    """About 60 files for each of ``copies``: logs, dumps, binaries, snapshots, compressed ones, and what is neither."""
    sources = [
        *sorted((FIXTURES / "ptxas").glob("*.log"))[:14],
        *sorted((FIXTURES / "nvcc").glob("*"))[:8],
        *sorted((FIXTURES / "nvlink").glob("*"))[:4],
        *sorted((FIXTURES / "sass").glob("*.sass"))[:6],
        *sorted((FIXTURES / "binary").rglob("*.*"))[:14],
        *sorted((FIXTURES / "hostile").glob("*.log"))[:4],
    ]
    for copy in range(copies):
        for number, source in enumerate(path for path in sources if path.is_file()):
            aim = folder / f"part{copy}" / f"{number % 5}" / source.name
            aim.parent.mkdir(parents=True, exist_ok=True)
            if copy:  # another content, the same kernels
                aim.write_bytes(source.read_bytes() + (b"" if b"\0" in source.read_bytes()[:99] else b"%d\n" % copy))
            else:
                shutil.copyfile(source, aim)
        others = folder / f"part{copy}" / "others"
        others.mkdir()
        (others / "readme.txt").write_text("nothing of a compiler\n" * 50)
        (others / "empty.log").touch()
        (others / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
        (others / "cut.o").write_bytes(b"\x7fELF" + bytes(60))
    return folder


def kept(root: Path | str, label: str = "v1") -> tuple[Build, list[tuple[Any, ...]]]:
    """Contents of one build in a dataset: its records, and its units with failures."""
    columns = "uri, content_hash, size_bytes, coalesce(failure, '')"
    units = open_dataset(str(root)).ask(f"SELECT {columns} FROM units WHERE label = ? ORDER BY ALL", [label]).rows
    return load_build(str(root), label), units


def run(inputs: Path | str, into: Path | str, **options: Any) -> Summary:
    """One audit with the build ``v1``."""
    options.setdefault("processes", None if {"workers", "scheduler"} & set(options) else 1)
    return audit(Plan(builds={"v1": [str(inputs)]}, into=str(into), **options))


@contextmanager
def customised(folder: Path) -> Iterator[None]:
    """Processes started meanwhile are prepared by :data:`CUSTOM`."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(CUSTOM)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (str(folder), *sys.path) if path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
