"""Where something may begin among other bytes: cubins and fat binaries, archives, and what is compressed, and
what looks like noise."""

from __future__ import annotations

import numpy as np

from spillscan.reading.binary import elf, fatbin
from spillscan.reading.binary.window import Budget, Window
from spillscan.reading.inputs import archives, codecs

_CODE = (elf.MAGIC + b"\2\1\1", fatbin.BEGINNING)
"""Of cubins: 64 bits, little-endian, version 1."""
_ZIP, _ZIP_END = b"PK\3\4", b"PK\5\6"
_ZIP_END_BYTES = (1 << 16) + 22
"""Within so many last bytes stands where the directory of a zip archive is."""
_TAR, _TAR_AT = b"ustar", 257
_LIBRARY = b"!<arch>\n"
_PACKED = (*codecs.MAGICS, _ZIP, _TAR, b"070701", _LIBRARY)
"""Of what holds other files. What compresses without a magic of its own is known only where a file begins."""


class Search:
    """One beginning after the other, in the order of the bytes."""

    def __init__(self, window: Window, budget: Budget, *, packed: bool) -> None:
        """``packed``: also archives and what is compressed; without them only GPU code."""
        self._window = window
        self._budget = budget
        self._texts = (*_CODE, *(_PACKED if packed else ()))
        self._next = [window.find(text) for text in self._texts]
        self._has_directory: bool | None = None
        self.found = False
        """Whether anything did."""

    def next(self) -> Window | None:
        """The rest of the bytes, from the next beginning on."""
        while True:
            at = min((at for at in self._next if at >= 0), default=-1)
            if at < 0:
                return None
            which = self._texts[self._next.index(at)]
            self._go(at + 1)
            begin = at - _TAR_AT if which == _TAR else at
            if begin < 0:
                continue
            found = self._window.part(begin, self._window.size - begin, "data")
            if which in _CODE or self._is_sound(found):
                self.found = True
                return found

    def is_packed(self, beginning: Window) -> bool:
        """Whether what begins there holds other files."""
        return not beginning.starts(elf.MAGIC) and not beginning.starts(fatbin.MAGIC)

    def skip(self, whole: Window) -> None:
        """What stands in ``whole`` is read."""
        self._go(whole.end - self._window.start)

    def _go(self, to: int) -> None:
        for number, text in enumerate(self._texts):
            if 0 <= self._next[number] < to:
                self._next[number] = self._window.find(text, to)

    def _is_sound(self, found: Window) -> bool:
        """Whether it is more than a few bytes that look so."""
        self._budget.try_beginning(found.start)
        head = found.copy(0, min(found.size, codecs.HEAD_BYTES), "data")
        if (codec := codecs.codec_of(head)) is not None:
            return codecs.begins(codec, head)
        form = archives.kind(head[: archives.HEAD_BYTES])
        if form == "zip":
            return found.size > 30 and head[26:28] != b"\0\0" and self._zip_ends()
        if form == "library":
            return head[66:68] == b"`\n"
        return form == "cpio" or (form == "tar" and archives.has_tar_checksum(head[: archives.HEAD_BYTES]))

    def _zip_ends(self) -> bool:
        if self._has_directory is None:
            window = self._window
            self._has_directory = window.find(_ZIP_END, max(0, window.size - _ZIP_END_BYTES)) >= 0
        return self._has_directory


# Whether bytes look compressed or encrypted: then each value stands there about as often as any other.

LEAST_BYTES = 1 << 16
"""Of less it is not said: tables and keys may look so."""
_SAMPLES = 4
_MOST_BITS = 7.95
"""Of a byte. Samples of random bytes have 7.997 or so, compressed data 7.97 and more; weights of neural networks, which
are numbers of few exponents, 7.8 at most."""


def is_noise(window: Window) -> bool:
    """Whether most samples of it do."""
    if window.size < LEAST_BYTES:
        return False
    step = (window.size - LEAST_BYTES) // (_SAMPLES - 1)
    samples = [window.part(at * step, LEAST_BYTES, "sample") for at in range(_SAMPLES)]
    return sum(bits(sample) >= _MOST_BITS for sample in samples) > _SAMPLES / 2


def bits(window: Window) -> float:
    """Shannon's entropy of its bytes, in bits a byte."""
    counts = np.bincount(window.array(np.dtype(np.uint8), window.size, 0, "sample"), minlength=256)
    shares = counts[counts > 0] / window.size
    return float(-(shares * np.log2(shares)).sum())
