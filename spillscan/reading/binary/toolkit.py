"""Which tool wrote a cubin, as far as it says: in a note, else by the version in its ELF header."""

from __future__ import annotations

import re

from msgspec import Struct

from spillscan.model.code import Maker
from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.window import Window

TKINFO = b".note.nv.tkinfo"
ABI_NEW = 8
_PRINTABLE = re.compile(rb"[\x20-\x7e]{2,}")
_VERSION = re.compile(rb"V(\d+)\.(\d+)\.(\d+)")
_ARCH = re.compile(rb"-arch[= ]+(?:sm|compute)_(\d+[af]?)\b")


class Toolkit(Struct, frozen=True, kw_only=True):
    """Which ptxas or nvlink wrote the cubin, as far as it says."""

    version: tuple[int, ...] = ()
    """(13, 5, 37); only the first two without a note; empty where nothing says."""
    tool: str = ""
    """``ptxas`` or ``nvlink``."""
    options: str = ""
    """Its command line."""
    arch: str = ""
    """Target on its command line: ``100f``."""

    @property
    def maker(self) -> Maker | None:
        """The same for the reader of reports; ``None`` where nothing says."""
        if not self.version:
            return None
        return Maker(tool=self.tool, version=".".join(map(str, self.version)), options=self.options)


def toolkit_of(elf: Elf) -> Toolkit:
    """What the cubin says of its maker."""
    note = elf.index(TKINFO)
    if note is not None:
        return _tkinfo(elf.contents(note))
    if elf.abi_version < ABI_NEW and 50 <= elf.version < 1000:  # the toolkit's version: 0x7e is 12.6
        return Toolkit(version=(elf.version // 10, elf.version % 10))
    return Toolkit()


def _tkinfo(note: Window) -> Toolkit:
    """Header of 24 bytes (sizes, type, owner), a table of offsets, then texts: tool, version, branch, options."""
    texts: list[bytes] = _PRINTABLE.findall(note.copy(0, min(note.size, 1 << 16), "note"))
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
