"""CUDA fat binaries: a header and consecutive entries, each PTX, a cubin or LTO-IR, plain, LZ4 or zstd.

Layout (measured on toolkits 10.0 to 13.5; NVIDIA publishes none): the container is ``u32 0xBA55ED50, u16 version (1),
u16 header bytes (16), u64 bytes of entries``; an entry ``u16 kind, u16 version (0x101), u32 header bytes (64 … 264),
u64 stored bytes, u32 compressed bytes, u32 offset of the options, u16 minor, u16 major, u32 arch, u32 offset and u32
length of the identifier, u64 flags, u64 zero, u64 plain bytes``; offsets count from the entry's beginning.

``fatbinary -concat`` (13.5) joins several entries into one of kind 0x100; no library has one, and it is not opened.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from spillscan.reading.binary.window import Budget, DamageError, UnopenedError, Window

MAGIC = b"\x50\xed\x55\xba"
PTX, CUBIN, LTO_IR = 1, 2, 8
_JOINED = 0x100
LZ4, ZSTD = 0x2000, 0x8000
ACCELERATED, FAMILY = 0x100000, 0x200000
HEADER_BYTES = 16
ENTRY_BYTES = 64
_ENTRY = "HHIQIIHHIIIQQQ"
_LONGEST_HEADER = 1 << 16
_LONGEST_IDENTIFIER = 4096
_HEAD_BYTES = 1 << 18
"""Compressed bytes that suffice for the first plain ones: more than a zstd block."""


class Entry(Struct, frozen=True, kw_only=True):
    """One member of a fat binary."""

    kind: int
    """PTX, cubin or LTO-IR."""
    arch: int
    """Number of the architecture, without its letter: 90."""
    flags: int
    """Letter of the architecture, compression, and other flags."""
    identifier: str
    """Source that it was compiled from; empty without ``-lineinfo``."""
    container: int
    """Offset of its fat binary in the buffer."""
    header: Window
    """Header before its bytes."""
    stored: Window
    """Bytes as stored."""
    plain_bytes: int
    """Claimed size after decompression."""

    @property
    def compressed(self) -> bool:
        """Whether it is compressed, so that :func:`image` makes a copy."""
        return bool(self.flags & (LZ4 | ZSTD))

    @property
    def target(self) -> str:
        """Number of the architecture with its letter: ``90a``."""
        suffix = "a" if self.flags & ACCELERATED else "f" if self.flags & FAMILY else ""
        return f"{self.arch}{suffix}"


def entries(region: Window) -> Iterator[Entry | DamageError]:
    """All entries of the fat binaries in ``region``, such as a section, with padding between them."""
    at = region.find(MAGIC)
    sound: int | None = 0
    """End of the last intact fat binary; ``None`` after a damaged one."""
    while at >= 0:
        end = at + HEADER_BYTES
        if sound is not None and (damage := _between(region, sound, at)):
            yield damage
        sound = None
        try:
            _, version, header, size = region.unpack("IHHQ", at, "fat binary header")
            if version != 1 or header != HEADER_BYTES:
                raise DamageError(
                    f"fat binary header: version {version}, {header} bytes; expected version 1, {HEADER_BYTES} bytes",
                    region.start + at,
                )
            body = region.part(at + header, size, "fat binary")
            end = sound = at + header + size
        except DamageError as error:
            yield error
        else:
            yield from _entries(body, region.start + at)
        at = region.find(MAGIC, end)
    if sound is not None and (damage := _between(region, sound, region.size)):
        yield damage


def first(region: Window) -> Window:
    """Fat binary at the beginning of ``region``. Raises :class:`DamageError` if it is truncated."""
    (size,) = region.unpack("Q", 8, "fat binary header")
    return region.part(0, HEADER_BYTES + size, "fat binary")


def _between(region: Window, begin: int, end: int) -> DamageError | None:
    """Damage if the bytes between two fat binaries are not padding: they were a fat binary."""
    if region.copy(begin, end - begin, "fat binary").strip(b"\0"):
        return DamageError(f"unexpected data between fat binaries: {end - begin} bytes", region.start + begin)
    return None


def _entries(body: Window, container: int) -> Iterator[Entry | DamageError]:
    at = 0
    while at < body.size:
        try:
            kind, version, header, stored, packed, _, _, _, arch, name, length, flags, _, plain = body.unpack(
                _ENTRY, at, "fat binary entry"
            )
            if version != 0x101 or not ENTRY_BYTES <= header <= _LONGEST_HEADER:
                raise DamageError(
                    f"fat binary entry: version {version:#x} with header size {header} is unknown", body.start + at
                )
            if not flags & (LZ4 | ZSTD):
                packed, plain = stored, stored
            elif packed > stored:
                raise DamageError("a fat binary entry's compressed size exceeds its payload", body.start + at)
            data = body.part(at + header, stored, "fat binary entry")
        except DamageError as damage:
            yield damage
            return
        head = body.part(at, header, "header")
        if kind == _JOINED:
            yield UnopenedError("not opened: entries joined by fatbinary -concat", body.start + at)
        elif kind not in (PTX, CUBIN, LTO_IR):
            yield DamageError(f"fat binary entry of unknown kind {kind:#x}", body.start + at)
        else:
            yield Entry(
                kind=kind,
                arch=arch,
                flags=flags,
                identifier=_identifier(head, name, length),
                container=container,
                header=head,
                stored=Window(data.buffer, data.start, packed),
                plain_bytes=plain,
            )
        at += header + stored


def _identifier(head: Window, name: int, length: int) -> str:
    found = head.text(name, name + min(length, _LONGEST_IDENTIFIER)) if name else b""
    return found.decode("utf-8", "backslashreplace")


def claim(entry: Entry, budget: Budget) -> None:
    """Charge an entry's decompressed size to the budget. Raises :class:`DamageError`."""
    if entry.compressed:
        budget.take(entry.plain_bytes, entry.stored.size, entry.stored.start)


def head(entry: Entry, size: int) -> bytes:
    """First bytes of an entry, at most ``size``; only zstd needs no more than these. Raises :class:`DamageError`."""
    if entry.flags & ZSTD:
        stored = entry.stored
        return _decompressed(entry, stored.view(0, min(stored.size, _HEAD_BYTES), "fat binary entry"), size)
    plain = image(entry)
    return plain.copy(0, min(size, plain.size), "fat binary entry")


def image(entry: Entry) -> Window:
    """An entry's bytes. Raises :class:`DamageError`. Call :func:`claim` first: no limit is checked here."""
    if not entry.compressed:
        return entry.stored
    plain = _decompressed(entry, entry.stored.whole, entry.plain_bytes + 1)
    if len(plain) != entry.plain_bytes:
        what = f"fat binary entry: {entry.plain_bytes} bytes declared, {len(plain)} decompressed"
        raise DamageError(what, entry.stored.start)
    return Window(plain)


def _decompressed(entry: Entry, data: memoryview, most: int) -> bytes:
    """At most ``most`` bytes of ``data``, decompressed; LZ4 gives all. Raises :class:`DamageError`."""
    from lz4 import block

    from spillscan.reading.inputs.codecs import zstd, zstd_engine

    plain: bytes
    try:
        if entry.flags & LZ4:
            plain = block.decompress(data, uncompressed_size=entry.plain_bytes)
        else:
            plain = zstd_engine().decompress(data, most)
    except (block.LZ4BlockError, zstd().ZstdError, ValueError) as error:
        what = "corrupt, or larger than its header says" if isinstance(error, block.LZ4BlockError) else str(error)
        raise DamageError(f"fat binary entry cannot be decompressed: {what}", entry.stored.start) from error
    return plain
