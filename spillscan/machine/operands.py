"""What a function's instructions say besides their opcodes: highest registers named, bank conflicts of the source
registers, operations and bytes.

Read on demand only: it takes a look at every operand, where the counts take one at the opcodes' columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from spillscan.dumps import terminals
from spillscan.machine import banks, work
from spillscan.model.code import Operands

Wanted = Callable[[str], bool]
"""Whether the operands of the function of this symbol are to be read."""

_NAMED = re.compile(rb"(?<![\w.$])(U?[RP])([0-9]+)(?![0-9A-Za-z_])")
_LABEL = b"`("


class OperandReader:
    """Gathers one function's figures."""

    def __init__(self, arch: str | None) -> None:
        self._rule = banks.rule(arch)
        self._highest: dict[bytes, int] = {}
        self._before: banks.Sources = {}
        self._flops: int | None = 0
        self._bytes: dict[str, int | None] = {"global": 0, "shared": 0, "local": 0}
        self.conflicts: list[int] = []
        """Addresses of the instructions whose source registers conflict, ascending."""

    def text(self, lines: bytes) -> None:
        """Some whole lines of a dump."""
        for address, guard, opcode, modifiers, operands, _ in terminals.line_starts("instruction").findall(lines):
            self.instruction(int(address, 16), guard, opcode, modifiers, operands)

    def instruction(self, address: int, guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes) -> None:
        """One instruction, its fields as printed."""
        for kind, number in _NAMED.findall(guard + b" " + operands.partition(_LABEL)[0]):
            if int(number) > self._highest.get(kind, -1):
                self._highest[kind] = int(number)
        self._work(work.of(opcode.decode("latin-1"), modifiers))
        if self._rule is not None:
            now = banks.sources(opcode, modifiers, operands)
            if now and len(now) > self._rule.reads and banks.conflicts(self._rule, now, self._before):
                self.conflicts.append(address)
            self._before = now or {}

    def _work(self, done: work.Work) -> None:
        self._flops = None if self._flops is None or done.flops is None else self._flops + done.flops
        if done.space:
            before = self._bytes[done.space]
            self._bytes[done.space] = None if before is None or done.bytes is None else before + done.bytes

    def result(self, depths: Sequence[int | None]) -> Operands:
        """The figures; ``depths`` are the loops around each of :attr:`conflicts`."""
        by_depth = Counter(depths)
        order = sorted(by_depth, key=lambda depth: -1 if depth is None else depth, reverse=True)
        return Operands(
            highest_register=self._highest.get(b"R"),
            highest_uniform_register=self._highest.get(b"UR"),
            highest_predicate=self._highest.get(b"P"),
            bank_conflicts=None if self._rule is None else tuple((depth, by_depth[depth]) for depth in order),
            flops=self._flops,
            global_bytes=self._bytes["global"],
            shared_bytes=self._bytes["shared"] or 0,
        )
