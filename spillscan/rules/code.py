"""The size of a kernel's machine code, against its limit and an older build's."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Change, Finding, Kernel, Limit, Rule
from spillscan.rules import Terms, finding

MAX_BYTES = Limit(
    name="max_code_bytes",
    default=None,
    help="most bytes of machine code of a kernel",
    judges="build",
    order=35,
)
MAX_GROWTH = Limit(
    name="max_code_growth_percent",
    default=None,
    help="most percent by which the machine code of a kernel may grow",
    judges="change",
    order=75,
)
LIMIT = Rule(
    id="code-size",
    severity="error",
    judges=("build",),
    needs=("code",),
    limits=(MAX_BYTES,),
)
GROWTH = Rule(
    id="code-growth",
    severity="error",
    judges=("change",),
    needs=("code",),
    limits=(MAX_GROWTH,),
    recorded_as="code-size",
)

RULES = (LIMIT, GROWTH)
_SILENT = "no input shows its machine code; give its binary"


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """A kernel with more code than allowed."""
    most, size = terms.limit(MAX_BYTES), _size(kernel)
    if most is not None and size is not None and size > most:
        yield finding(LIMIT, f"{size:,} B of code, {most:,} B allowed", kernel)


def undecided(kernel: Kernel, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel whose machine code was not read."""
    silent = terms.limit(MAX_BYTES) is not None and _size(kernel) is None
    return (LIMIT, _SILENT) if silent else None


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """Code that grew by more than the policy tolerates; without a limit any growth is fine."""
    most = terms.limit(MAX_GROWTH)
    if most is None or change.before is None or change.after is None:
        return
    before, after = _size(change.before), _size(change.after)
    if before is not None and after is not None and 100 * (after - before) > most * before:
        percent = f"+{100 * (after - before) / before:.0f} %" if before else "from nothing"
        yield finding(GROWTH, f"code {before:,} → {after:,} B ({percent}, {most} % allowed)", change.after)


def undecided_change(change: Change, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel whose machine code was read of one build at most."""
    if terms.limit(MAX_GROWTH) is None or change.before is None or change.after is None:
        return None
    return (GROWTH, _SILENT) if None in (_size(change.before), _size(change.after)) else None


def measure(rule: str, kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Bytes of code."""
    size = _size(kernel)
    return None if rule != LIMIT.id or size is None else {"bytes": size}


def _size(kernel: Kernel) -> int | None:
    """Bytes of its code; ``None`` where it was not read."""
    return kernel.sass.code_bytes if kernel.sass is not None and kernel.sass.instructions else None
