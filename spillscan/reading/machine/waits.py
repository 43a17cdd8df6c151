"""Whether instructions wait for what they use: the barriers that an access or a long operation sets until it has read
its registers, or written them.

How long the others take is the assembler's to know, and taken for granted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from spillscan.reading.machine.instruction import LOADS, STORES, Instruction

_ACCESSES = frozenset((*LOADS, *STORES, *["LD", "ST", "ATOM", "ATOMG", "ATOMS", "RED", "REDG", "LDGSTS"]))
_GENERAL = 256
"""Numbers of general registers are below. Others are read when the instruction is issued: of what accesses name, ptxas
13.0 to 13.5 waits before it writes a general register (8,700 of 8,700 besides other accesses), and never before it
writes a uniform one (0 of 75)."""
_BARRIERS = 6
"""By which instructions wait for others; a higher number names none."""

_UnderWay = tuple[int, int, bool, bool]
"""A register, the barriers that say that it is done with, as bits; whether it is written; whether by an access."""
_Waits = frozenset[_UnderWay]


def unwaited(blocks: Mapping[int, Sequence[Instruction]], ways: Mapping[int, Collection[int]]) -> Counter[str]:
    """Instructions that use a register which another has not read or written yet, as far as barriers say, by
    mnemonic. ``blocks``: by where they begin; ``ways``: what may follow each."""
    entering: dict[int, _Waits] = {0: frozenset()}
    work = [0]
    while work:
        begin = work.pop()
        under_way, _ = _waited(blocks[begin], entering[begin])
        for way in ways[begin]:
            known = entering.get(way)
            joined = under_way if known is None else known | under_way
            if joined != known:
                entering[way] = joined
                work.append(way)
    found: Counter[str] = Counter()
    for begin, under_way in entering.items():
        found += _waited(blocks[begin], under_way)[1]
    return found


def _waited(block: Sequence[Instruction], under_way: _Waits) -> tuple[_Waits, Counter[str]]:
    """What is under way behind a block, and the instructions that do not wait for what they use. What has written has
    read before; accesses to memory read their registers one behind the other."""
    now = set(under_way)
    found: Counter[str] = Counter()
    for each in block:
        written, read, waited = each.waits
        if waited:
            now = {item for item in now if not waited & item[1]}
        access = each.name in _ACCESSES
        uses = {*each.read, *each.written}
        found[each.name] += any(
            register in (uses if writing else each.written) and (writing or not (access and by_access))
            for register, _, writing, by_access in now
        )
        done = 1 << written if written < _BARRIERS else 0
        if done:
            now |= {(register, done, True, access) for register in each.written if register >= 0}
        if read < _BARRIERS:
            now |= {(register, done | 1 << read, False, access) for register in each.read if 0 <= register < _GENERAL}
    return frozenset(now), found
