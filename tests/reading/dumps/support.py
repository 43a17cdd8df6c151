"""Fixtures as bytes, and streams that behave badly."""

from __future__ import annotations

import io
from pathlib import Path

import zstandard

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "sass"


def content(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".zst":
        with zstandard.open(io.BytesIO(data), "rb") as stream:
            return bytes(stream.read())
    return data


def dumps() -> list[Path]:
    """Every real `cuobjdump -sass`, also those in the way of being added."""
    return sorted(FIXTURES.glob("cuobjdump-*.sass*")) + sorted(FIXTURES.glob("fatbin-*.sass"))


class Pipe:
    """Gives a few bytes at a time, and cannot read into a buffer."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data, self._step = io.BytesIO(data), step

    def read(self, size: int) -> bytes:
        return self._data.read(min(size, self._step))
