"""Shared code of the dataset tests."""

from __future__ import annotations

import contextlib
import gc
import io
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from spillscan import scan
from spillscan.cli import main
from spillscan.history.dataset import Unit, open_dataset, seen, write_batch
from spillscan.model import Build
from tests.conftest import FIXTURES, issue_to_json, kernel_to_json

BASE, HEAD = FIXTURES / "demo" / "base.log", FIXTURES / "demo" / "head.log"


def unit_of(path: Path) -> Unit:
    data = path.read_bytes()
    return Unit(uri=str(path), content_hash=sha256(data).hexdigest(), size_bytes=len(data))


def read(*paths: Path) -> list[tuple[Unit, Build | None]]:
    """Each file as a unit of its own."""
    return [(unit, _scanned(unit)) for unit in map(unit_of, paths)]


@cache
def _scanned(unit: Unit) -> Build:
    return scan(unit.uri)


def append(root: Path | str, label: str, *paths: Path, **meta: str) -> None:
    write_batch(str(root), label, read(*paths), meta)


def finished(root: str, label: str, *, failed: bool = True) -> frozenset[tuple[str, str]]:
    """(uri, content hash) of the units of ``label`` that need no second reading; those that failed if ``failed``."""
    return frozenset((each.uri, each.content_hash) for each in seen(root, label) if failed or not each.failed)


def plain(build: Build) -> dict[str, Any]:
    """All of a build that a snapshot tells."""
    return {
        "kernels": [kernel_to_json(kernel) for kernel in build.kernels],
        "issues": [issue_to_json(issue) for issue in build.issues],
        "stats": build.stats,
    }


def held(root: Path) -> dict[str, Any]:
    """All builds that can be read."""
    dataset = open_dataset(str(root))
    return {label: plain(dataset.build(label)) for label in dataset.labels}


def files(root: Path) -> dict[str, bytes]:
    """All files below ``root``."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


class Done(NamedTuple):
    """Result of a command."""

    status: int
    out: str
    err: str


def command(*words: Path | str | int) -> Done:
    """The command in this process: starting one for each question takes longer than the questions."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(list(map(str, words)))
    finally:
        gc.enable()
    out.flush()
    return Done(status, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]
