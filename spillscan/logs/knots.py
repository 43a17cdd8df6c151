"""Kernels and registers lines of interleaved output: who may own what, and what all possible answers agree on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from spillscan.logs.drafts import Draft, PendingUse
from spillscan.logs.matching import possible_partners
from spillscan.logs.parameters import Reserves, bank_zero
from spillscan.model import Usage, agreement

_ARCH = re.compile(r"sm_(\d+)[af]?")


def may_own(draft: Draft, usage: Usage, *, without_abi: bool) -> bool:
    """Whether a registers line can be ``draft``'s; its fields may rule that out.

    Measured on all fixtures: a cumulative stack is never below the kernel's own frame, and whether constant banks are
    printed depends on the arch alone. ``without_abi``: some modules of the log print no stack lines.
    """
    if draft.stack is None:
        return without_abi or draft.stack_in_doubt
    prints_banks = prints_constant_banks(draft.arch)
    if prints_banks is not None and prints_banks != (usage.constant_bytes is not None):
        return False
    cumulative = usage.cumulative_stack_bytes
    return cumulative is None or draft.stack_in_doubt or draft.stack.frame_bytes <= cumulative


def prints_constant_banks(arch: str | None) -> bool | None:
    """Whether ptxas prints ``cmem`` for ``arch``: up to sm_89 always, from sm_90 on never (measured, 11.7 to 13.5)."""
    match = _ARCH.fullmatch(arch or "")
    return int(match[1]) < 90 if match else None


def untie(drafts: list[Draft], uses: list[PendingUse], reserves: Reserves) -> None:
    """Give each draft what every possible assignment of the registers lines agrees on, and a reason where that is
    not all.
    """
    candidates = _candidates(drafts, uses, reserves)
    possible = possible_partners(candidates, len(drafts))
    if possible is None:  # a contradiction: nothing that it would prove can be believed
        for draft in drafts:
            draft.reasons += ("interleaved output that fits no order of its lines",)
        return
    settled = _closed_groups(drafts, possible, len(uses))
    for index, draft in enumerate(drafts):
        options = [uses[item].usage for item in possible[index] if item < len(uses)]
        complete = len(options) == len(possible[index]) > 0
        if index in settled:
            draft.usage = uses[settled[index]].usage
        elif complete and len(set(options)) == 1:
            draft.usage = options[0]
        else:
            draft.usage = agreement(options) if complete else Usage()
            draft.reasons += (_why(options),)


def settle_stacks(drafts: Iterable[Draft]) -> None:
    """Kernels of one name and different arch or unit whose stack lines came in an order that proves nothing: sure only
    where all the lines say the same.
    """
    doubtful: dict[str, list[Draft]] = defaultdict(list)
    for draft in drafts:
        if draft.stack_in_doubt:
            doubtful[draft.symbol].append(draft)
    for namesakes in doubtful.values():
        alike = len({draft.stack for draft in namesakes}) == 1
        for draft in namesakes:
            draft.stack_in_doubt = not alike
            if not alike:
                draft.reasons += ("kernels of its name were compiled at the same time",)


def _candidates(drafts: list[Draft], uses: list[PendingUse], reserves: Reserves) -> list[list[int]]:
    """For each registers line the drafts, by index, that may own it."""
    place = {id(draft): index for index, draft in enumerate(drafts)}
    expected = [reserves.expected(draft.symbol, draft.arch) for draft in drafts]
    candidates = []
    for use in uses:
        bank = bank_zero(use.usage)
        owners = [place[id(owner)] for owner in use.owners]
        candidates.append([owner for owner in owners if bank is None or expected[owner] in (None, bank)])
    lacking = len(drafts) - len(uses)  # lines that a cut-off log does not hold: anybody's
    return candidates + [list(range(len(drafts)))] * lacking


def _closed_groups(drafts: list[Draft], possible: list[list[int]], uses: int) -> dict[int, int]:
    """Draft -> registers line, for drafts that nothing tells apart and whose lines can be nobody else's."""
    groups: dict[object, list[int]] = defaultdict(list)
    for index, draft in enumerate(drafts):
        groups[draft.identity].append(index)
    settled: dict[int, int] = {}
    for members in groups.values():
        lines = sorted({item for index in members for item in possible[index]})
        if len(lines) == len(members) and lines[-1] < uses:
            settled.update(zip(members, lines, strict=True))
    return settled


def _why(options: list[Usage]) -> str:
    registers = sorted({usage.registers for usage in options if usage.registers is not None})
    if not registers:
        return "no registers line follows it"
    shown = ", ".join(map(str, registers[:4])) + (", …" if len(registers) > 4 else "")
    return f"interleaved output: its registers line is one of {len(options)} ({shown} registers)"
