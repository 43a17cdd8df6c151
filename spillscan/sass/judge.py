"""Classes and loop depths of one function's accesses to local memory, callee by callee."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from spillscan.model import Role
from spillscan.sass import flow, loops, spills, terminals
from spillscan.sass.accesses import Accesses
from spillscan.sass.kept import Marked
from spillscan.sass.model import AccessClass, LocalTraffic

if TYPE_CHECKING:
    from spillscan.sass.code import Code


class Judge:
    """Looks at one function; ``role`` is what it is as far as its opcodes tell."""

    def __init__(self, code: Code, marked: Marked, role: Role) -> None:
        self._code = code
        self._marked = marked
        self._flow = flow.read(marked.moves, last=code.last_address, parts=code.parts)
        self._starts = [0, *self._flow.entries]
        self.role: Role = role if role != "unknown" else self._role()
        used = {self._part_of(address) for address in marked.addresses} if self._flow.inner_calls else ()
        self._callers = {self._part_of(address) for address in self._flow.calls}
        self._callers |= {
            self._part_of(address) for address, target in self._flow.inner_calls if self._part_of(target) in used
        }
        """Parts that call something which may look for arguments on the stack."""
        self._uses = code.stack_uses()
        self._seen: list[tuple[int, bytes]] = []

    def _role(self) -> Role:
        returns = {is_return for address, is_return in self._flow.leaves if self._part_of(address) == 0}
        return "function" if returns == {True} else "entry"

    def _part_of(self, address: int) -> int:
        """0 for the function itself, n for the n-th callee in its listing."""
        return bisect_right(self._starts, address) - 1

    def _stack_uses(self, part: int) -> Iterator[bytes]:
        """Operands of what names the stack pointer in one part; the text is read as far as somebody asks."""
        yield from (operands for where, operands in self._seen if where == part)
        for address, operands in self._uses:
            where = self._part_of(address)
            self._seen.append((where, operands))
            if where == part:
                yield operands

    def traffic(self) -> LocalTraffic:
        """All accesses with their classes and depths."""
        marked, addresses = self._marked, self._marked.addresses
        kinds: list[AccessClass] = []
        parts: list[int] = []
        cuts = [0, *(bisect_left(addresses, start) for start in self._starts[1:]), len(addresses)]
        for part, (begin, end) in enumerate(pairwise(cuts)):
            if begin < end:
                kinds += self._kinds(part, begin, end)
                parts += [part] * (end - begin)
        found = Accesses(
            addresses=addresses,
            lines=marked.lines,
            accesses=marked.accesses,
            kinds=kinds,
            depths=loops.depths(self._flow.controls, self._flow.entries, addresses),
            parts=parts,
            sources=marked.sources,
        )
        return LocalTraffic(
            accesses=found,
            evidence="annotation" if self._code.annotations else "last-use",
            flow="guessed" if self._flow.guessed else "followed",
            frame=found.frame(self._frame(0)) if self.role == "function" else None,
        )

    def _kinds(self, part: int, begin: int, end: int) -> Sequence[AccessClass]:
        device = bool(part) or self.role == "function"
        return spills.classify(
            self._marked.accesses[begin:end],
            annotations=self._code.annotations,
            device=device,
            calls=part in self._callers,
            frame=self._frame(part) if device else None,
            taken=lambda: any(terminals.line("taken").match(operands) for operands in self._stack_uses(part)),
        )

    def _frame(self, part: int) -> int | None:
        """Bytes that a callee takes from the stack, where its first change of the stack pointer is a subtraction."""
        for operands in self._stack_uses(part):
            if match := terminals.line("frame").match(operands):
                amount = int(match["amount"], 16)
                amount -= (amount >= 1 << 31) << 32
                return -amount if amount < 0 else None
        return None
