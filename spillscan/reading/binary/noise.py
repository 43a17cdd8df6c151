"""Whether bytes look compressed or encrypted: then each value stands there about as often as any other."""

from __future__ import annotations

import numpy as np

from spillscan.reading.binary.window import Window

LEAST_BYTES = 1 << 16
"""Of less it is not said: tables and keys may look so."""
_SAMPLES = 4
_MOST_BITS = 7.95
"""Of a byte. Samples of random bytes have 7.997 or so, compressed data 7.97 and more; weights of neural networks, which
are numbers of few exponents, 7.8 at most."""


def is_packed(window: Window) -> bool:
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
