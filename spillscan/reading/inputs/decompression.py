"""Decompressors of files that a system's tools compress, one of a frame each."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any


def decompressor(format: str) -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
    """What makes a decompressor of one frame, and what that raises for a damaged one."""
    if format == "gzip":
        return lambda: zlib.decompressobj(zlib.MAX_WBITS | 16), (zlib.error,)
    if format == "bzip2":
        import bz2

        return bz2.BZ2Decompressor, (OSError,)
    if format == "xz":
        import lzma

        return lzma.LZMADecompressor, (lzma.LZMAError,)
    import zstandard

    return lambda: zstandard.ZstdDecompressor().decompressobj(), (zstandard.ZstdError,)
