"""CUDA fat binaries: a header and entries one after the other, each PTX or a cubin, plain, LZ4 or zstd.

Layout (measured on toolkits 11.7 to 13.5, nothing is published): the container is ``u32 0xBA55ED50, u16 version (1),
u16 header bytes (16), u64 bytes of entries``; an entry ``u16 kind, u16 version (0x101), u32 header bytes (64 … 112),
u64 stored bytes, u32 compressed bytes, u32 offset of the options, u16 minor, u16 major, u32 arch, u32 offset and u32
length of the identifier, u64 flags, u64 zero, u64 plain bytes``; offsets count from the entry's beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spillscan.binary.limits import Budget
from spillscan.binary.window import DamageError, Window

MAGIC = b"\x50\xed\x55\xba"
PTX, CUBIN = 1, 2
LZ4, ZSTD = 0x2000, 0x8000
ACCELERATED, FAMILY = 0x100000, 0x200000
HEADER_BYTES = 16
ENTRY_BYTES = 64
_LONGEST_IDENTIFIER = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member of a fat binary."""

    kind: int
    """1: PTX, 2: cubin; others exist (LTO-IR) and hold no machine code."""
    arch: int
    """Number of the architecture, without its letter: 90."""
    flags: int
    """Compression and others."""
    identifier: str
    """Source that it was made of; empty without ``-lineinfo``."""
    stored: Window
    """The bytes as stored."""
    plain_bytes: int
    """Bytes after decompression, as the entry claims."""

    @property
    def target(self) -> str:
        """``sm_90a``."""
        suffix = "a" if self.flags & ACCELERATED else "f" if self.flags & FAMILY else ""
        return f"sm_{self.arch}{suffix}"

    @property
    def compressed(self) -> bool:
        """Whether :func:`image` makes a copy."""
        return bool(self.flags & (LZ4 | ZSTD))


def entries(region: Window) -> Iterator[Entry | DamageError]:
    """All entries of the fat binaries in ``region`` (a section holds several, with padding between them)."""
    at = region.find(MAGIC)
    while at >= 0:
        end = at + HEADER_BYTES
        try:
            _, version, header, size = region.unpack("IHHQ", at, "fat binary header")
            if version != 1 or header < HEADER_BYTES:
                raise DamageError(f"fat binary of unknown version {version}", region.start + at)
            body = region.part(at + header, size, "fat binary")
            end = at + header + size
        except DamageError as damage:
            yield damage
        else:
            yield from _entries(body)
        at = region.find(MAGIC, end)


def _entries(body: Window) -> Iterator[Entry | DamageError]:
    at = 0
    while at < body.size:
        try:
            kind, version, header, stored, packed, _, _, _, arch, name, length, flags, _, plain = body.unpack(
                "HHIQIIHHIIIQQQ", at, "fat binary entry"
            )
            if version != 0x101 or header < ENTRY_BYTES:
                raise DamageError(f"fat binary entry of unknown version {version:#x}", body.start + at)
            if not flags & (LZ4 | ZSTD):
                packed = stored
            elif packed > stored:
                raise DamageError("fat binary entry: more compressed than stored bytes", body.start + at)
            data = body.part(at + header, stored, "fat binary entry")
        except DamageError as damage:
            yield damage
            return
        identifier = body.text(at + name, at + name + min(length, _LONGEST_IDENTIFIER)) if name else b""
        yield Entry(
            kind=kind,
            arch=arch,
            flags=flags,
            identifier=identifier.decode("utf-8", "backslashreplace"),
            stored=Window(data.buffer, data.start, packed),
            plain_bytes=plain,
        )
        at += header + stored


def image(entry: Entry, budget: Budget) -> Window:
    """The entry's bytes, decompressed where they are compressed. Raises :class:`DamageError`."""
    stored = entry.stored
    if not entry.compressed:
        return stored
    budget.take(entry.plain_bytes, stored.size, stored.start)
    data = stored.view(0, stored.size, "fat binary entry")
    try:
        plain = _lz4(data, entry.plain_bytes) if entry.flags & LZ4 else _zstd(data, entry.plain_bytes)
    except ValueError as error:
        raise DamageError(f"fat binary entry does not decompress: {error}", stored.start) from error
    if len(plain) != entry.plain_bytes:
        raise DamageError(f"fat binary entry of {entry.plain_bytes} bytes decompresses to {len(plain)}", stored.start)
    return Window(plain)


def _lz4(data: memoryview, size: int) -> bytes:
    import lz4.block

    try:
        plain: bytes = lz4.block.decompress(data, uncompressed_size=size)
    except lz4.block.LZ4BlockError as error:
        raise ValueError(str(error)) from error
    return plain


def _zstd(data: memoryview, size: int) -> bytes:
    import zstandard

    try:
        told = zstandard.frame_content_size(data)
        if told not in (size, -1):
            raise ValueError(f"its frame holds {told} bytes")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
