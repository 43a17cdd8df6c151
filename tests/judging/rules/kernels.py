"""Kernels, machine code and policies for the tables in this folder."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import yaml

from spillscan.judging.rules import Terms
from spillscan.model import Advisory, Kernel, KernelKey, LaunchBounds, Origin, Usage
from spillscan.model.code import SassStats, WarpRole
from spillscan.model.local import Group, LocalTraffic, Traffic
from tests.conftest import ROOT


def table(name: str) -> Any:
    """The rows of ``NAME.yaml``."""
    return yaml.load((ROOT / "tests" / "judging" / "rules" / f"{name}.yaml").read_bytes(), Loader=yaml.CSafeLoader)


def sass(
    groups: list[tuple[Any, ...]] | None = None, budgets: tuple[int, ...] = (), code_bytes: int = 144, **more: Any
) -> SassStats:
    """Code with groups of (kind, depth, instructions, "callee" if in one), and roles of these registers."""
    counted = ((Group(kind, True, 4, depth, bool(inner)), count) for kind, depth, count, *inner in groups or ())
    local = LocalTraffic(kept=tuple(counted))
    roles = tuple(
        WarpRole(address=at * 16, registers=asked, follows=True, spill=None, local=Traffic())
        for at, asked in enumerate(budgets)
    )
    opcodes = (("USETMAXREG", len(budgets)),) if budgets else (("NOP", 9),)
    return SassStats(instructions=9, code_bytes=code_bytes, opcodes=opcodes, local=local, roles=roles, **more)


_TYPES: dict[str, Any] = {
    "usage": Usage,
    "advisories": tuple[Advisory, ...],
    "origins": tuple[Origin, ...],
    "launch_bounds": LaunchBounds,
    "reasons": tuple[str, ...],
}


def kernel(fields: dict[str, Any]) -> Kernel:
    """The kernel of a row."""
    known = {"role": "entry", "usage": {}, **fields}
    key = KernelKey(symbol="k", arch=known.pop("arch", "sm_80"))
    if "sass" in known:
        known["sass"] = sass(**known["sass"])
    made = {name: msgspec.convert(value, _TYPES[name]) if name in _TYPES else value for name, value in known.items()}
    return Kernel(key=key, **made)


class Same(NamedTuple):
    """The same terms for every kernel."""

    terms: Terms

    def terms_of(self, kernel: Kernel) -> Terms:
        """The terms of any."""
        return self.terms
