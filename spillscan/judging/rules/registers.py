"""Registers per thread, and the roles of warps that hand them over with ``setmaxnreg`` (Hopper and later)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from spillscan.judging.compare.metrics import allocated, ends_spills, linked_apart
from spillscan.judging.rules import Check, Terms, Violation, because, threshold, unlinked
from spillscan.model import LOST_SETTING, Change, Kernel, Launch, Limit, Rule, Usage
from spillscan.occupancy.devices import WARP_THREADS
from spillscan.occupancy.launches import LARGEST_BLOCK
from spillscan.output.nouns import count

MAX_GROWTH = Limit("max_register_growth", "change", default=0)
REGISTERS = Rule("registers", "error", needs=("registers",), limits=(Limit("max_registers", "build"),))
GROWTH = Rule(
    "register-growth", "error", needs=("registers",), limits=(MAX_GROWTH,), recorded_as="registers", least="note"
)


def _unknown(kernel: Kernel, terms: Terms) -> str:
    if kernel.role == "function":
        return ""
    if kernel.usage.registers is None:
        return because(kernel, "no input reports the registers")
    return unlinked(kernel, "registers")


def _grown(change: Change, terms: Terms) -> Iterator[Violation]:
    """More registers, with a severity by their effect.
    A note within one allocation unit, or if registers allow as many blocks at every block size; a warning if the known
    launch loses none, if registers allow fewer only at some sizes, or if spills end and the launch is unknown; else an
    error. A block lost at the known launch is an error of its own (:mod:`spillscan.judging.rules.blocks`).
    """
    known, most = _known(change), terms.limit(MAX_GROWTH)
    if known is None or most is None or known[1] - known[0] <= most:
        return
    before, after = map(allocated, known)
    text = f"uses more registers: {known[0]} → {known[1]} (+{known[1] - known[0]})"
    if after == before:
        yield Violation(f"{text}, {after} allocated as before", "note")
        return
    effects = change.effects
    if any(effect.blocks and effect.blocks[1] < effect.blocks[0] for effect in effects):
        return
    text += f", {before} → {after} allocated"
    bounds = (side.launch_bounds for side in (change.before, change.after) if side is not None)
    most = min([LARGEST_BLOCK, *(each.threads for each in bounds if each and each.threads)])
    lost = [_loses(known, effect.device, most) for effect in effects]
    if lost and not any(map(any, lost)):
        yield Violation(f"{text}; registers allow the same blocks/SM at every block size", "note")
    elif lost and all(effect.blocks for effect in effects):
        kept = ", ".join(f"{count(e.resident_blocks[1] or 0, 'block')}/SM on {e.device}" for e in effects)
        yield Violation(f"{text}; keeps {kept}", "warning")
    elif lost and not any(map(all, lost)):
        yield Violation(f"{text}; registers allow fewer blocks/SM at some block sizes", "warning")
    elif not any(effect.blocks for effect in effects) and ends_spills(change):
        yield Violation(f"{text}; no longer spills, block size unknown", "warning")
    else:
        yield Violation(text)


@lru_cache(maxsize=4096)
def _loses(registers: tuple[int, int], device: str, most: int) -> tuple[bool, ...]:
    """For each block size up to ``most`` that the older kernel's registers allow: whether the newer's allow fewer."""
    from spillscan.judging.compare.effects import resident  # a single build has no effects

    sizes = [Launch(threads_per_block=size) for size in {*range(WARP_THREADS, most + 1, WARP_THREADS), most}]
    pairs = ([resident(Usage(registers=each, shared_bytes=0), device, size) for each in registers] for size in sizes)
    blocks = ([each.resident_blocks if each else 0 for each in pair] for pair in pairs)
    return tuple(after < before for before, after in blocks if before)


def _growth_unknown(change: Change, terms: Terms) -> str:
    """Why growth is unknown: registers are not reported, or only before the link.

    Two disassemblies are not compared by registers, which they do not show, but by spills.
    """
    before, after = change.before, change.after
    if before is None or after is None or "function" in (before.role, after.role) or _known(change) is not None:
        return ""
    if all(kernel.sass and kernel.usage.registers is None for kernel in (before, after)):
        return ""
    for build, kernel in (("newer", after), ("older", before)):
        if kernel.usage.registers is None:
            return because(kernel, f"the {build} build does not report registers")
    return unlinked(after, "registers of the newer build") or unlinked(before, "registers of the older build")


def _known(change: Change) -> tuple[int, int] | None:
    """Registers (before, after); ``None`` if a build does not report them, or only one side is linked."""
    if change.before is None or change.after is None:
        return None
    before, after = change.before.usage.registers, change.after.usage.registers
    if before is None or after is None or linked_apart(change.before, change.after, equal=before == after):
        return None
    return before, after


# ---- roles --------------------------------------------------------------------------------------------------------

ROLES_LOST = Rule("setmaxnreg-lost", "error", needs=("registers",), least="warning")
ROLES_UNFIT = Rule("role-registers", "error")

WARPGROUP = 128
"""Threads of a warpgroup, all warps of which execute the same ``setmaxnreg`` (PTX ISA, setmaxnreg)."""


def _waiting(kernel: Kernel, terms: Terms) -> Iterator[Violation]:
    """Roles that cannot all get the registers that they request."""
    unfit = _unfit(kernel, terms)
    if unfit is not None:
        asked, threads, owned = unfit
        groups = threads // WARPGROUP
        text = f"deadlocks: setmaxnreg values of {count(groups, 'warpgroup')} add up to {asked:,}"
        yield Violation(f"{text}; their registers per thread at launch add up to {owned:,}")


def _waiting_now(change: Change, terms: Terms) -> Iterator[Violation]:
    if change.after is not None and not (change.before and _unfit(change.before, terms)):
        yield from _waiting(change.after, terms)


def _roles_lost(change: Change, terms: Terms) -> Iterator[Violation]:
    """Removed ``setmaxnreg``; a warning if it only has other numbers."""
    old, new = (None if kernel is None else _budgets(kernel) for kernel in (change.before, change.after))
    if not old or new is None or old == new:
        return
    was, now = _listed(old), _listed(new)
    if not new:
        yield Violation(f"no longer sets registers per warp role (setmaxnreg {was})")
    elif len(new) < len(old):
        yield Violation(f"sets registers for fewer warp roles: setmaxnreg {was} → {now}")
    else:
        yield Violation(f"sets different registers per warp role: setmaxnreg {was} → {now}", "warning")


def _roles_lost_unknown(change: Change, terms: Terms) -> str:
    """Why roles are unknown: the kernel used ``setmaxnreg``, and its newer code was not read."""
    if change.before is None or change.after is None or not _budgets(change.before):
        return ""
    if _budgets(change.after) is None and not any(each.kind == LOST_SETTING for each in change.after.advisories):
        return "the older build uses setmaxnreg; to compare, also pass the newer build's binary"
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
    return ", ".join([*known, *(["unknown"] if None in budgets else [])])


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


def _registers_missing(kernel: Kernel, terms: Terms) -> dict[str, int]:
    """Registers that roles request beyond those of the block."""
    unfit = _unfit(kernel, terms)
    return {"missing": unfit[0] - unfit[2] if unfit else 0}


CHECKS = (
    threshold(
        REGISTERS,
        lambda kernel, _: kernel.usage.registers,
        key="registers",
        message=lambda kernel, terms, registers, most: f"uses {registers} registers, {most} allowed",
        unknown=_unknown,
    ),
    Check(rule=GROWTH, find_change=_grown, unknown_change=_growth_unknown),
    Check(rule=ROLES_LOST, find_change=_roles_lost, unknown_change=_roles_lost_unknown),
    Check(rule=ROLES_UNFIT, find=_waiting, measure=_registers_missing, find_change=_waiting_now),
)
