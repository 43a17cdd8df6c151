"""CUDA fat binaries: a header and entries one after the other, each PTX or a cubin, plain, LZ4 or zstd.

Layout (measured on toolkits 11.7 to 13.5, nothing is published): the container is ``u32 0xBA55ED50, u16 version (1),
u16 header bytes (16), u64 bytes of entries``; an entry ``u16 kind, u16 version (0x101), u32 header bytes (64 … 112),
u64 stored bytes, u32 compressed bytes, u32 offset of the options, u16 minor, u16 major, u32 arch, u32 offset and u32
length of the identifier, u64 flags, u64 zero, u64 plain bytes``; offsets count from the entry's beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spillscan.binary.window import Budget, DamageError, Window

MAGIC = b"\x50\xed\x55\xba"
PTX, CUBIN = 1, 2
LZ4, ZSTD = 0x2000, 0x8000
ACCELERATED, FAMILY = 0x100000, 0x200000
HEADER_BYTES = 16
ENTRY_BYTES = 64
_LONGEST_IDENTIFIER = 4096
_HEAD_BYTES = 1 << 18
"""Compressed bytes that give the first plain ones: more than a block of zstd."""
_ZSTD_WINDOW = 1 << 27


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
    sound = 0 if at >= 0 else None
    """Where a sound fat binary ended; ``None`` behind a damaged one."""
    while at >= 0:
        end = at + HEADER_BYTES
        if sound is not None and (damage := _between(region, sound, at)):
            yield damage
        sound = None
        try:
            _, version, header, size = region.unpack("IHHQ", at, "fat binary header")
            if version != 1 or header < HEADER_BYTES:
                raise DamageError(f"fat binary of unknown version {version}", region.start + at)
            body = region.part(at + header, size, "fat binary")
            end = sound = at + header + size
        except DamageError as error:
            yield error
        else:
            yield from _entries(body)
        at = region.find(MAGIC, end)
    if sound is not None and (damage := _between(region, sound, region.size)):
        yield damage


def _between(region: Window, begin: int, end: int) -> DamageError | None:
    """Between fat binaries there is nothing but padding: what else stands there was one."""
    if region.copy(begin, end - begin, "fat binary").strip(b"\0"):
        return DamageError(f"{end - begin} bytes that are no fat binary", region.start + begin)
    return None


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


def claim(entry: Entry, budget: Budget) -> None:
    """Account for what an entry becomes. Raises :class:`DamageError`."""
    if entry.compressed:
        budget.take(entry.plain_bytes, entry.stored.size, entry.stored.start)


def head(entry: Entry, size: int) -> bytes:
    """Its first bytes, no more than there are; nothing else is decompressed. Raises :class:`DamageError`."""
    stored = entry.stored
    if not entry.compressed:
        return stored.copy(0, min(size, stored.size), "fat binary entry")
    data = stored.view(0, min(stored.size, _HEAD_BYTES), "fat binary entry")
    try:
        return _lz4_head(data, size) if entry.flags & LZ4 else _zstd_head(data, size)
    except ValueError as error:
        raise DamageError(f"fat binary entry does not decompress: {error}", stored.start) from error


def image(entry: Entry) -> Window:
    """The entry's bytes, decompressed where they are compressed. Raises :class:`DamageError`.

    Its size must have been claimed: nothing is bounded here.
    """
    stored = entry.stored
    if not entry.compressed:
        return stored
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


def _lz4_head(data: memoryview, size: int) -> bytes:
    """The first bytes of an LZ4 block: literals, then copies of what stands before them, and so on."""
    plain = bytearray()
    at = 0
    try:
        while len(plain) < size and at < len(data):
            token = data[at]
            at, literals = _lz4_length(data, at + 1, token >> 4)
            plain += data[at : at + min(literals, size)]
            at += literals
            if len(plain) >= size or at >= len(data):
                break
            distance = data[at] | data[at + 1] << 8
            at, copied = _lz4_length(data, at + 2, token & 15)
            if not 0 < distance <= len(plain):
                raise ValueError("a copy from before its beginning")
            for _ in range(min(copied + 4, size)):
                plain.append(plain[-distance])
    except IndexError as error:
        raise ValueError("it breaks off") from error
    return bytes(plain[:size])


def _lz4_length(data: memoryview, at: int, length: int) -> tuple[int, int]:
    """(offset behind it, length) of a length whose first four bits are known."""
    if length == 15:
        while data[at] == 255:
            length, at = length + 255, at + 1
        length, at = length + data[at], at + 1
    return at, length


def _zstd_head(data: memoryview, size: int) -> bytes:
    import zstandard

    try:
        return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(data).read(size)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def _zstd(data: memoryview, size: int) -> bytes:
    import zstandard

    try:
        claimed = zstandard.frame_content_size(data)
        if claimed not in (size, -1):
            raise ValueError(f"its frame holds {claimed} bytes")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
