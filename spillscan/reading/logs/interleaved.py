"""Which registers line belongs to which kernel, where several compilers wrote into one log.

ptxas writes the lines of one kernel in order, but ``Used N registers`` names no kernel; when several kernels wait for
theirs, only what every possible assignment agrees on is certain. Three kinds of evidence narrow the assignments: the
order of the lines, figures that one kernel cannot have (frames, constant banks), and constant bank 0, which holds the
kernel's parameters and so distinguishes signatures.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

from spillscan.model import Usage, agreement
from spillscan.model.symbols import demangle
from spillscan.reading.logs.records import Draft, PendingUse

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


def contradicts(draft: Draft, usage: Usage) -> bool:
    """Whether a registers line's fields show that it cannot be ``draft``'s, whose stack line may be missing."""
    banks = prints_constant_banks(draft.arch)
    if banks is not None and banks != (usage.constant_bytes is not None):
        return not banks
    cumulative = usage.cumulative_stack_bytes
    return draft.stack is not None and cumulative is not None and draft.stack.frame_bytes > cumulative


def prints_constant_banks(arch: str | None) -> bool | None:
    """Whether ptxas prints ``cmem`` for ``arch``: up to sm_89 always, from sm_90 on never (measured, 11.7 to 13.5)."""
    match = _ARCH.fullmatch(arch or "")
    return int(match[1]) < 90 if match else None


def assign(drafts: list[Draft], uses: list[PendingUse], reserves: Reserves) -> None:
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
    lacking = len(drafts) - len(uses)  # lines that a cut-off log does not hold: any draft's
    return candidates + [list(range(len(drafts)))] * lacking


def _closed_groups(drafts: list[Draft], possible: list[list[int]], uses: int) -> dict[int, int]:
    """Draft -> registers line, for drafts that nothing distinguishes and whose lines can be no other's."""
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


# ---- perfect matchings --------------------------------------------------------------------------------------------
# An edge lies in some perfect matching of a bipartite graph if and only if it is in a given one or both its ends are
# in one strongly connected component of the graph that directs matched edges one way and all others the other way
# (Berge 1957; Régin 1994 uses it for the all-different constraint).


def possible_partners(candidates: Sequence[Sequence[int]], partners: int) -> list[list[int]] | None:
    """For each partner, the items that it has in some assignment that gives every item and every partner one.

    ``candidates[i]`` are the partners that item ``i`` may have; ``partners`` is how many there are, and must equal the
    number of items. ``None`` where no such assignment exists.
    """
    if len(candidates) != partners:
        return None
    chosen = _perfect_matching(candidates, partners)
    if chosen is None:
        return None
    item_of = [0] * partners
    for item, partner in enumerate(chosen):
        item_of[partner] = item
    # One node an item with its chosen partner: item -> the item that now holds a partner it could have instead.
    component = _components([[item_of[partner] for partner in row] for row in candidates])
    possible: list[list[int]] = [[] for _ in range(partners)]
    for item, row in enumerate(candidates):
        for partner in row:
            if component[item] == component[item_of[partner]]:
                possible[partner].append(item)
    return possible


def _perfect_matching(candidates: Sequence[Sequence[int]], partners: int) -> list[int] | None:
    """A partner for each item (augmenting paths, breadth first); ``None`` where there is no perfect matching."""
    chosen = [-1] * len(candidates)
    item_of = [-1] * partners
    for start in range(len(candidates)):
        reached_from: dict[int, int] = {}  # partner -> item from which the search came
        queue = [start]
        free = -1
        while queue and free < 0:
            following: list[int] = []
            for item in queue:
                for partner in candidates[item]:
                    if partner in reached_from:
                        continue
                    reached_from[partner] = item
                    if item_of[partner] < 0:
                        free = partner
                        break
                    following.append(item_of[partner])
                if free >= 0:
                    break
            queue = following
        if free < 0:
            return None
        while free >= 0:  # turn the path over, back to the start
            item = reached_from[free]
            item_of[free], free, chosen[item] = item, chosen[item], free
    return chosen


def _components(edges: Sequence[Sequence[int]]) -> list[int]:
    """The strongly connected component of each node (Tarjan 1972, without recursion)."""
    count = len(edges)
    order = [-1] * count
    low = [0] * count
    component = [-1] * count
    stack: list[int] = []
    found = 0
    for root in range(count):
        if order[root] >= 0:
            continue
        work = [(root, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                order[node] = low[node] = found
                found += 1
                stack.append(node)
            if position < len(edges[node]):
                work.append((node, position + 1))
                successor = edges[node][position]
                if order[successor] < 0:
                    work.append((successor, 0))
                elif component[successor] < 0:
                    low[node] = min(low[node], order[successor])
                continue
            if low[node] == order[node]:
                while True:
                    member = stack.pop()
                    component[member] = node
                    if member == node:
                        break
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
    return component


# ---- parameters as evidence --------------------------------------------------------------------------------------
# ptxas prints ``cmem[0]`` up to sm_89. Its size is that of the parameters plus a reserve that depends on the arch alone
# (measured: 320 bytes up to sm_62, 352 from sm_70 on). Nothing is taken for granted: a log's own kernels whose
# figures are sure must agree on the reserve before it is used.

FEWEST_WITNESSES = 3
"""Kernels that must agree on an arch's reserve before it is believed."""

_SIZES = {
    "bool": 1,
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "short": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "float": 4,
    "double": 8,
    "long long": 8,
    "unsigned long long": 8,
    # 8 on Linux, 4 on Windows: unknown
}
_POINTER = re.compile(r"[^()\[\]]*[*&](?: ?(?:const|restrict|__restrict__|__restrict|volatile))*\Z")
_QUALIFIERS = re.compile(r"\b(?:const|volatile) ?| ?\b(?:const|volatile)\b")


class Reserves:
    """What the sure kernels of one log say about constant bank 0."""

    def __init__(self) -> None:
        self._reserves: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._seen: dict[str, list[tuple[str, int]]] = defaultdict(list)

    def witness(self, symbol: str, arch: str | None, usage: Usage) -> None:
        """A kernel whose figures are sure."""
        bank = bank_zero(usage)
        if arch is None or bank is None:
            return
        size = parameter_bytes(symbol)
        if size is None:
            self._seen[symbol].append((arch, bank))
        else:
            self._reserves[arch][bank - size] += 1

    def expected(self, symbol: str, arch: str | None) -> int | None:
        """The size that ``cmem[0]`` of this kernel must have; ``None`` where the log does not prove one."""
        reserve = self._reserve(arch)
        if reserve is None:
            return None
        size = parameter_bytes(symbol)
        if size is not None:
            return reserve + size
        # The same symbol on another arch, or in another unit, has the same parameters.
        sizes = {
            bank - other for arch, bank in self._seen.get(symbol, ()) if (other := self._reserve(arch)) is not None
        }
        return reserve + sizes.pop() if len(sizes) == 1 else None

    def _reserve(self, arch: str | None) -> int | None:
        found = self._reserves.get(arch or "", {})
        if len(found) != 1:
            return None
        reserve, witnesses = next(iter(found.items()))
        return reserve if witnesses >= FEWEST_WITNESSES else None


def bank_zero(usage: Usage) -> int | None:
    """Bytes of constant bank 0; ``None`` where the tool prints no banks."""
    return dict(usage.constant_bytes or ()).get(0)


@lru_cache(maxsize=8192)
def parameter_bytes(symbol: str) -> int | None:
    """Bytes that the parameters of ``symbol`` take, by the C++ ABI; ``None`` where its name does not say.

    Only parameters of built-in and pointer types are counted; a class or a type of platform-dependent size makes the
    whole unknown.
    """
    name = demangle(symbol)
    if name == symbol or not name.endswith(")"):
        return None
    start = _signature_start(name)
    if start is None:
        return None
    offset = 0
    for parameter in _split(name[start + 1 : -1]):
        size = 8 if _POINTER.fullmatch(parameter) else _SIZES.get(_QUALIFIERS.sub("", parameter))
        if size is None:
            return None
        offset = -(-offset // size) * size + size
    return offset


def _signature_start(name: str) -> int | None:
    """Where the parenthesis opens that the last character closes."""
    depth = 0
    for index in range(len(name) - 1, -1, -1):
        if name[index] == ")":
            depth += 1
        elif name[index] == "(":
            depth -= 1
            if depth == 0:
                return index
    return None


def _split(parameters: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, character in enumerate(parameters):
        if character in "<({[":
            depth += 1
        elif character in ">)}]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(parameters[start:index].strip())
            start = index + 1
    last = parameters[start:].strip()
    return [*parts, last] if last and last != "void" else parts
