"""Warp-specialised kernels: warps that give registers to others by ``setmaxnreg`` (Hopper and later)."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.figures import allocated
from spillscan.judging.rules._declared import Family, Said, Terms
from spillscan.model import LOST_SETTING, Change, Kernel, Rule
from spillscan.output.nouns import count

LOST = Rule("setmaxnreg-lost", "error", ("change",), ("registers",))
CHANGED = Rule("setmaxnreg-changed", "warning", ("change",), ("registers",))
MISMATCH = Rule("setmaxnreg-mismatch", "error", ("build",))
UNFIT = Rule("role-registers", "error", ("build", "change"))

WARPGROUP = 128
"""Threads; all warps of a warpgroup execute one ``setmaxnreg`` (PTX ISA, setmaxnreg)."""


def findings(kernel: Kernel, terms: Terms) -> Iterator[Said]:
    """A log and code that contradict each other; roles that cannot all have what they ask for."""
    yield from _waiting(kernel, terms)
    ignored = any(advisory.kind == LOST_SETTING for advisory in kernel.advisories)
    if ignored and kernel.sass is not None and kernel.sass.setmaxnreg:
        found = count(kernel.sass.setmaxnreg, "setmaxnreg instruction")
        yield MISMATCH, f"has {found}, ignored according to the log: log and code are of different compilations"


def _waiting(kernel: Kernel, terms: Terms) -> Iterator[Said]:
    unfit = _unfit(kernel, terms)
    if unfit is not None:
        asked, threads, held = unfit
        groups = threads // WARPGROUP
        message = f"deadlocks: setmaxnreg asks for {asked:,} registers per thread, summed over {groups} warpgroups"
        yield UNFIT, f"{message}; its block has {held:,}"


def regressions(change: Change, terms: Terms) -> Iterator[Said]:
    """``setmaxnreg`` that is gone, or gives other numbers; roles that do not fit, and did."""
    after = change.after
    if after is None:
        return
    if _unfit(after, terms) and not (change.before and _unfit(change.before, terms)):
        yield from _waiting(after, terms)
    old, new = (None if kernel is None else _budgets(kernel) for kernel in (change.before, after))
    if not old or new is None or old == new:
        return
    was = _listed(old)
    if not new:
        yield LOST, f"no longer sets registers per role (setmaxnreg {was})"
    elif len(new) < len(old):
        yield LOST, f"sets registers for fewer roles: setmaxnreg {was} → {_listed(new)}"
    else:
        yield CHANGED, f"sets other registers per role: setmaxnreg {was} → {_listed(new)}"


def undecided_change(change: Change, terms: Terms) -> Said | None:
    """A kernel that had ``setmaxnreg``, and whose newer code was not read."""
    if change.before is None or change.after is None or not _budgets(change.before):
        return None
    if _budgets(change.after) is None and not any(each.kind == LOST_SETTING for each in change.after.advisories):
        return LOST, "its warps had registers of their own (setmaxnreg), and its newer code was not read"
    return None


def _budgets(kernel: Kernel) -> frozenset[int | None] | None:
    """The numbers that its roles ask for, each once: a compiler may join roles, or write one twice. ``None``: its code
    was not read."""
    if kernel.sass is None or kernel.sass.setmaxnreg is None:
        return None
    return frozenset(role.registers for role in kernel.sass.roles if role.address is not None)


def _listed(budgets: frozenset[int | None]) -> str:
    known = [str(budget) for budget in sorted(budget for budget in budgets if budget is not None)]
    return " and ".join([*known, *(["unknown"] if None in budgets else [])])


def _unfit(kernel: Kernel, terms: Terms) -> tuple[int, int, int] | None:
    """(registers that its roles ask for at least, threads of its block, registers that the block has), the registers a
    thread of each warpgroup, summed over the warpgroups; ``None`` where they fit, or it is not known.

    Each role has one warpgroup at least, all others what the most modest has. Roles that the same warps may come to one
    after the other need not be held at once.
    """
    threads = terms.launch.threads_per_block if terms.launch else None
    if threads is None and kernel.launch_bounds is not None:
        threads = kernel.launch_bounds.threads
    own = kernel.usage.registers
    roles = [role for role in kernel.sass.roles if role.address is not None] if kernel.sass is not None else []
    if not roles or threads is None or threads % WARPGROUP or own is None or any(role.follows for role in roles):
        return None
    budgets = [role.registers for role in roles if role.registers is not None]
    groups, held = threads // WARPGROUP, threads // WARPGROUP * allocated(own)
    if len(budgets) < len(roles) or groups == 0:
        return None
    modest = min(*budgets, allocated(own))
    running = budgets if len(budgets) <= groups else [max(budgets)]
    asked = sum(running) + (groups - len(running)) * modest
    return (asked, threads, held) if asked > held else None


def _missing(kernel: Kernel, terms: Terms) -> dict[str, int]:
    """Registers that roles ask for beyond what the block has."""
    unfit = _unfit(kernel, terms)
    return {"missing": unfit[0] - unfit[2] if unfit else 0}


FAMILIES = (
    Family(
        rules=(LOST, CHANGED, MISMATCH, UNFIT),
        findings=findings,
        regressions=regressions,
        undecided_change=undecided_change,
        measures={UNFIT: _missing},
    ),
)
