"""zstd: Python's own module since 3.14, the backports package before. Imported only when such data is found."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import (
        DecompressionParameter,
        ZstdDecompressor,
        ZstdError,
        compress,
        decompress,
        get_frame_info,
    )
else:
    from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError, compress, decompress, get_frame_info

__all__ = ["ZstdError", "compress", "decompress", "decompressor", "get_frame_info"]

_WINDOW_BITS = 27
"""Log2 of the largest window that a frame may refer back to: 128 MiB, as in zstd's own command."""


def decompressor() -> ZstdDecompressor:
    """An engine for one frame."""
    return ZstdDecompressor(options={DecompressionParameter.window_log_max: _WINDOW_BITS})
