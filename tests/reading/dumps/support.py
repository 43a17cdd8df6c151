"""Fixtures as bytes, and in chunks."""

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


def cut(data: bytes, size: int) -> list[bytes]:
    """In chunks of so many bytes."""
    return [data[at : at + size] for at in range(0, len(data), size)]
