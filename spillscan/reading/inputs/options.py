"""What a reader is asked for beyond what it always reads."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Options(Struct, frozen=True, kw_only=True):
    """Of one scan. What a format does not have, its reader passes over."""

    operands: bool = False
    """What the operands of dumped instructions name, which takes longer."""
    live: bool = False
    """How many registers are live at once in binaries."""
    unpacking: Mapping[str, int] = field(default_factory=dict)
    """Fields of :class:`~spillscan.reading.binary.window.Limits` that are not to be the default."""


DEFAULT = Options()
