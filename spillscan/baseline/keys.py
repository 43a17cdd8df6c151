"""What a kernel is called in a baseline: its canonical identity, and that identity as the key of a line."""

from __future__ import annotations

import re
from hashlib import blake2s

from spillscan.baseline.model import Identity
from spillscan.identity import canonical
from spillscan.model import Kernel

LONGEST_SYMBOL = 200
"""Longer symbols (CUTLASS has them of thousands of characters) become their beginning and a digest of the whole."""
KEPT = 150
"""Characters of a long symbol that are kept, so that a family's kernels still stand together."""

NO_ARCH = "unknown"
"""Stands for an arch that the log does not tell."""

_TAIL = re.compile(r"([a-z]\w*)(/function)?", re.ASCII)


def identity_of(kernel: Kernel) -> Identity:
    """The identity of ``kernel``: equal in every checkout, and in every translation unit that has a copy of it."""
    return Identity(shortened(canonical(kernel.key.symbol)), kernel.key.arch, kernel.role == "function")


def shortened(symbol: str) -> str:
    """``symbol``, or its beginning, ``~`` and a digest of all of it (64 bits) where it is very long."""
    if len(symbol) <= LONGEST_SYMBOL:
        return symbol
    return f"{symbol[:KEPT]}~{blake2s(symbol.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def key_of(identity: Identity) -> str:
    """``_Z4gemmPf sm_90a``; of a device function ``_Z4gemmPf sm_90a/function``."""
    return f"{identity.symbol} {identity.arch or NO_ARCH}{'/function' if identity.function else ''}"


def parse_key(key: str) -> Identity | None:
    """The identity that :func:`key_of` wrote; ``None`` where ``key`` is none."""
    symbol, _, tail = key.rpartition(" ")
    parts = _TAIL.fullmatch(tail)
    if not symbol or not parts:
        return None
    return Identity(symbol, None if parts[1] == NO_ARCH else parts[1], parts[2] is not None)
