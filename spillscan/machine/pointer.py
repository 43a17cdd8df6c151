"""What one instruction does with the stack pointer: as text, or as machine code tells it without any."""

from __future__ import annotations

from typing import NamedTuple

from spillscan.dumps import terminals


class Plain(NamedTuple):
    """A use of the stack pointer, STL and LDL apart."""

    taken: bool
    """It goes into something else than itself."""
    change: int | None = None
    """Bytes that are added to it; ``None`` where that is no constant."""


StackUse = bytes | Plain
"""The operands as printed, or what they say."""


def taken(use: StackUse) -> bool:
    """Whether it reads the address of the frame for something else than to move the frame."""
    return use.taken if isinstance(use, Plain) else terminals.line("taken").match(use) is not None


def change(use: StackUse) -> int | None:
    """Bytes that it adds to the stack pointer; ``None`` where it does not, or no constant."""
    if isinstance(use, Plain):
        return use.change
    match = terminals.line("frame").match(use)
    if match is None:
        return None
    amount = int(match["amount"], 16)
    return amount - ((amount >= 1 << 31) << 32)
