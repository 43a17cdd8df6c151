"""Which architectures' machine code is understood."""

from __future__ import annotations

import re

from spillscan.model import Issue, Origin

FIRST = 50
"""Maxwell. No disassembler at hand reads Kepler (CUDA 12 dropped it), so nothing said of it could be checked."""


def unsupported(arch: str | None, origin: Origin | None) -> Issue | None:
    """Why functions of an architecture are left out; ``None`` where they are not."""
    number = re.match(r"sm_([0-9]+)", arch or "")
    if number is None or int(number[1]) >= FIRST:
        return None
    message = f"machine code of {arch} is not read: Kepler and older are not supported, sm_{FIRST} is the first"
    return Issue(code="unsupported-arch", message=message, severity="error", origin=origin)
