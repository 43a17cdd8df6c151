"""The toolkit that made a cubin, from its notes: ``.note.nv.tkinfo`` (new layout), else the version in its header."""

from __future__ import annotations

import re
from dataclasses import dataclass

from spillscan.binary.elf import Elf
from spillscan.binary.window import Window

TKINFO = b".note.nv.tkinfo"
ABI_NEW = 8
_TEXT = re.compile(rb"[\x20-\x7e]{2,}")
_VERSION = re.compile(rb"V(\d+)\.(\d+)\.(\d+)")
_ARCH = re.compile(rb"-arch[= ]+(?:sm|compute)_(\d+[af]?)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """Which ptxas or nvlink wrote the cubin, as far as it tells."""

    version: tuple[int, ...] = ()
    """(13, 5, 37); only the first two without a note; empty where nothing tells."""
    tool: str = ""
    """``ptxas`` or ``nvlink``."""
    options: str = ""
    """Its command line."""
    arch: str = ""
    """Target on its command line: ``100f``."""


def toolkit(elf: Elf) -> Toolkit:
    """What the cubin says of its maker."""
    note = elf.index(TKINFO)
    if note is not None:
        return _tkinfo(elf.contents(note))
    if elf.abi_version < ABI_NEW and 50 <= elf.version < 1000:  # the toolkit's version: 0x7e is 12.6
        return Toolkit(version=(elf.version // 10, elf.version % 10))
    return Toolkit()


def _tkinfo(note: Window) -> Toolkit:
    """Header of 24 bytes (sizes, type, owner), a table of offsets, then texts: tool, version, branch, options."""
    texts: list[bytes] = _TEXT.findall(note.copy(0, min(note.size, 1 << 16), "note"))
    texts = [text for text in texts if text != b"NVIDIA Corp"]
    release = next((match for text in texts if (match := _VERSION.search(text))), None)
    options = texts[-1].strip() if len(texts) > 3 else b""
    arch = _ARCH.search(options)
    return Toolkit(
        version=tuple(map(int, release.groups())) if release else (),
        tool=texts[0].decode() if texts else "",
        options=options.decode(),
        arch=arch[1].decode() if arch else "",
    )
