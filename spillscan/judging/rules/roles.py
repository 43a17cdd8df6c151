"""Warp-specialized kernels: warps that hand registers to others with ``setmaxnreg`` (Hopper and later)."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.metrics import allocated
from spillscan.judging.rules._declared import Check, Found, Terms
from spillscan.model import LOST_SETTING, Change, Kernel, Rule

LOST = Rule("setmaxnreg-lost", "error", needs=("registers",), least="warning")
UNFIT = Rule("role-registers", "error")

WARPGROUP = 128
"""Threads of a warpgroup, all warps of which execute the same ``setmaxnreg`` (PTX ISA, setmaxnreg)."""


def _waiting(kernel: Kernel, terms: Terms) -> Iterator[Found]:
    """Roles that cannot all get the registers that they request."""
    unfit = _unfit(kernel, terms)
    if unfit is not None:
        asked, threads, owned = unfit
        groups = threads // WARPGROUP
        text = f"deadlocks: setmaxnreg requests {asked:,} registers per thread, summed over {groups} warpgroups"
        yield Found(f"{text}; its block has {owned:,}")


def _waiting_now(change: Change, terms: Terms) -> Iterator[Found]:
    if change.after is not None and not (change.before and _unfit(change.before, terms)):
        yield from _waiting(change.after, terms)


def _lost(change: Change, terms: Terms) -> Iterator[Found]:
    """Removed ``setmaxnreg``; a warning if it only has other numbers."""
    old, new = (None if kernel is None else _budgets(kernel) for kernel in (change.before, change.after))
    if not old or new is None or old == new:
        return
    was, now = _listed(old), _listed(new)
    if not new:
        yield Found(f"no longer sets registers per role (setmaxnreg {was})")
    elif len(new) < len(old):
        yield Found(f"sets registers for fewer roles: setmaxnreg {was} → {now}")
    else:
        yield Found(f"sets other registers per role: setmaxnreg {was} → {now}", "warning")


def _lost_unknown(change: Change, terms: Terms) -> str:
    """Unknown if a kernel used ``setmaxnreg``, and its newer code was not read."""
    if change.before is None or change.after is None or not _budgets(change.before):
        return ""
    if _budgets(change.after) is None and not any(each.kind == LOST_SETTING for each in change.after.advisories):
        return "setmaxnreg was used, and the newer code was not read"
    return ""


def _budgets(kernel: Kernel) -> frozenset[int | None] | None:
    """Distinct register counts that its roles request; ``None`` if its code was not read.

    A compiler may merge roles, or write one twice.
    """
    if kernel.sass is None or kernel.sass.setmaxnreg is None:
        return None
    return frozenset(role.registers for role in kernel.sass.roles if role.address is not None)


def _listed(budgets: frozenset[int | None]) -> str:
    known = [str(budget) for budget in sorted(budget for budget in budgets if budget is not None)]
    return " and ".join([*known, *(["unknown"] if None in budgets else [])])


def _unfit(kernel: Kernel, terms: Terms) -> tuple[int, int, int] | None:
    """(registers its roles request, threads of the block, registers of the block); ``None`` if they fit or are unknown.
    Registers are per thread of each warpgroup, summed over the warpgroups. Each role has at least one warpgroup; the
    other warpgroups count with the smallest request. Roles that the same warps may run one after the other need not fit
    together.
    """
    threads = terms.launch.threads_per_block if terms.launch else None
    if threads is None and kernel.launch_bounds is not None:
        threads = kernel.launch_bounds.threads
    own = kernel.usage.registers
    roles = [role for role in kernel.sass.roles if role.address is not None] if kernel.sass is not None else []
    if not roles or threads is None or threads % WARPGROUP or own is None or any(role.follows for role in roles):
        return None
    budgets = [role.registers for role in roles if role.registers is not None]
    groups, owned = threads // WARPGROUP, threads // WARPGROUP * allocated(own)
    if len(budgets) < len(roles) or groups == 0:
        return None
    modest = min(*budgets, allocated(own))
    running = budgets if len(budgets) <= groups else [max(budgets)]
    asked = sum(running) + (groups - len(running)) * modest
    return (asked, threads, owned) if asked > owned else None


def _missing(kernel: Kernel, terms: Terms) -> dict[str, int]:
    """Registers that roles request beyond those of the block."""
    unfit = _unfit(kernel, terms)
    return {"missing": unfit[0] - unfit[2] if unfit else 0}


CHECKS = (
    Check(rule=LOST, find_change=_lost, unknown_change=_lost_unknown),
    Check(rule=UNFIT, find=_waiting, measure=_missing, find_change=_waiting_now),
)
