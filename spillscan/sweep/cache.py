"""Results of compilers by content hash. What cannot be read, or is damaged, is not there: it is made anew."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zlib
from pathlib import Path

_MAGIC = b"spillscan sweep 1\n"
_DIGEST_BYTES = 32
_MOST_BYTES = 1 << 30


def key(*parts: str | bytes) -> str:
    """A hash of all parts; no two lists of parts share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


class Cache:
    """A folder of entries, two files of one key never half-written; ``None`` keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str) -> tuple[bytes, ...] | None:
        """The pieces kept under ``name``."""
        if self._folder is None:
            return None
        try:
            data = self._place(name).read_bytes()
        except OSError:
            return None
        body = data[len(_MAGIC) + _DIGEST_BYTES :]
        if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != data[len(_MAGIC) :][:_DIGEST_BYTES]:
            return None
        try:
            return _pieces(zlib.decompressobj().decompress(body, _MOST_BYTES))
        except (zlib.error, ValueError):
            return None

    def put(self, name: str, *pieces: bytes) -> None:
        """Keep ``pieces``; a full or read-only disk keeps nothing, and no result is the worse for it."""
        if self._folder is None:
            return
        body = zlib.compress(b"".join(b"%d:" % len(piece) + piece for piece in pieces), 1)
        place = self._place(name)
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=place.parent, prefix=".")
            try:
                with open(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(body).digest() + body)
                os.replace(draft, place)
            except OSError:
                os.unlink(draft)
                raise

    def _place(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / name[:2] / name


def _pieces(data: bytes) -> tuple[bytes, ...]:
    found = []
    at = 0
    while at < len(data):
        colon = data.index(b":", at)
        size = int(data[at:colon])
        at = colon + 1 + size
        if at > len(data):
            raise ValueError("cut off")
        found.append(data[colon + 1 : at])
    return tuple(found)
