"""zstd: Python's own from 3.14 on, before that the package that backports it. Imported where such data is met."""

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
"""Of what a frame may refer back to: 128 MiB, as zstd's own command allows."""


def decompressor() -> ZstdDecompressor:
    """An engine for one frame."""
    return ZstdDecompressor(options={DecompressionParameter.window_log_max: _WINDOW_BITS})
