"""Holes that a team accepts on record: what a gate cannot see, and why that is well."""

from __future__ import annotations

from dataclasses import dataclass

from spillscan.errors import UsageError
from spillscan.model import Hole
from spillscan.model.holes import KINDS
from spillscan.patterns import compiled, names_of, text_of

OPTION = "--accept"


def holes() -> tuple[str, ...]:
    """The codes of all kinds that may be accepted."""
    return tuple(code for code, hides in KINDS.items() if hides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """One entry of ``accept``."""

    hole: str
    """The kind of hole, by its code."""
    match: str = "*"
    """Pattern that a name of the kernel, its unit or arch where it is about these, or the input, must fit."""
    reason: str
    """Why, in the team's words."""
    origin: str
    """Where it stands."""

    def covers(self, hole: Hole) -> bool:
        """Whether it accepts ``hole``."""
        if self.hole != hole.code:
            return False
        names = [*hole.names, hole.origin.input if hole.origin else ""]
        if hole.kernel is not None:
            names += names_of(hole.kernel.named_by)
        return compiled(self.match).fits(text_of(names), names)


def parse_accept(text: str) -> Acceptance:
    """``HOLE`` or ``HOLE=GLOB`` of an option; :class:`~spillscan.errors.UsageError` where there is no such kind."""
    code, _, pattern = text.partition("=")
    if code not in holes():
        raise UsageError(f"{OPTION} {text[:60]}: there is no hole {code[:60]!r}", "`spillscan explain` lists all")
    compiled(pattern)
    return Acceptance(hole=code, match=pattern or "*", reason=f"{OPTION} {text}", origin=OPTION)
