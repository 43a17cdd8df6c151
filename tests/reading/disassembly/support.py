"""Fixtures as bytes, and in chunks."""

from __future__ import annotations

from pathlib import Path

from spillscan.reading.inputs.codecs import zstd

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "sass"


def content(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".zst":
        return zstd().decompress(data)
    return data


def dumps() -> list[Path]:
    """Every real `cuobjdump -sass` output, including files not yet committed."""
    return sorted(FIXTURES.glob("cuobjdump-*.sass*")) + sorted(FIXTURES.glob("fatbin-*.sass"))


def cut(data: bytes, size: int) -> list[bytes]:
    """In chunks of so many bytes."""
    return [data[at : at + size] for at in range(0, len(data), size)]
