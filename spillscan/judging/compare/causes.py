"""Differences of two builds that may explain why a kernel takes more registers or spills more, with evidence.

Constraints of the compilation come first (launch bounds, register limit, toolkit, options), then local arrays that
moved to memory, calls, and source lines with more instructions. Each is read from the code or its records; how a
compiler got from one to the other is not guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from spillscan.judging.compare.metrics import moved
from spillscan.model import Kernel
from spillscan.model.code import MOST_REGISTERS, Maker
from spillscan.model.findings import Moved, moved_bounds
from spillscan.model.local import SourceLine
from spillscan.reading.binary.pressure import Pressure
from spillscan.reading.machine.liveness import INSTRUCTION
from spillscan.reading.machine.spillmap import culprits, where

Kind = Literal["bounds", "register-limit", "toolkit", "options", "array", "calls", "lines"]
"""Kinds of causes, in this order.

Launch bounds; registers that ptxas was allowed; its version; its options; local arrays in memory that was not used for
any before; number of calls; source lines with more instructions.
"""

_BEFORE_OPTION = re.compile(r"\s+(?=-)")
_WITHOUT_MEANING = {"", "-v", "--verbose", "-lineinfo", "--generate-line-info"}
_LEAST_MORE = 4
"""Instructions that a line must gain or lose to be named."""
_SHOWN = 3


class Cause(Struct, frozen=True, kw_only=True):
    """A difference that affects registers."""

    kind: Kind
    """Kind of the difference."""
    evidence: str
    """Evidence in one line, with values and source lines, the most affected first."""


class Growth:
    """Comparison of one kernel before and after: causes, unknowns, and values live at the peak.

    ``code``: code of kernels by ``id``, if it could be read.
    """

    def __init__(self, before: Kernel, after: Kernel, code: Mapping[int, Pressure]) -> None:
        self.before, self.after = before, after
        self.codes = old, new = code.get(id(before)), code.get(id(after))
        made = [each.sass.maker if each.sass else None for each in (before, after)]
        self.causes = [*_limits(before, after), *_tools(*made), *_arrays(before, after)]
        """Known differences, the most important first."""
        if old and new:
            self.causes += _code((before, after), (old, new))
        self.unknown = [*_unknown(self.codes, made)]
        """One line each."""

    @property
    def at_peak(self) -> list[Moved]:
        """Lines that wrote more of the registers live at the peak than before, the largest growth first."""
        old, new = self.codes
        before, after = (_at_peak(old), _at_peak(new)) if old and new else ({}, {})
        grown = [(line, before[line], registers) for line, registers in after.items() if registers > before[line]]
        return sorted(grown, key=lambda each: each[1] - each[2])

    def sentences(self) -> Iterator[str]:
        """Causes, the most important first, with the peaks; unknowns last."""
        if not self.causes:
            yield "no known difference explains the growth"
        yield from (cause.evidence for cause in self.causes)
        yield from self.peaks()
        yield from (f"unknown: {text}" for text in self.unknown)

    def peaks(self) -> Iterator[str]:
        """Peaks of live registers, and the lines that wrote more of them."""
        peaks = [each.peak for each in self.codes if each is not None]
        if len(peaks) == 2:
            words = [f"{peak.registers} at {where(peak.source) or hex(peak.address)}" for peak in peaks]
            yield f"peak of live registers: {words[0]} → {words[1]}"
        if self.at_peak:
            yield f"registers live at the peak, by the line that wrote them: {_listed(self.at_peak)}"


def _unknown(codes: Sequence[Pressure | None], made: Sequence[Maker | None]) -> Iterator[str]:
    if not all(codes):
        yield "live registers, and which lines grew; pass binaries of both builds (sm_75 and later)"
    elif not all(any(each.sources) for each in codes if each):
        yield "which lines grew; compile both builds with -lineinfo"
    if not all(made):
        yield "toolkit and options; pass binaries of both builds (CUDA 13 or later)"


def _limits(before: Kernel, after: Kernel) -> Iterator[Cause]:
    """Launch bounds, and the registers that ptxas was allowed by them, ``__maxnreg__`` or ``-maxrregcount``."""
    if bounds := moved_bounds(before, after):
        words = ["none" if threads is None else f"{threads:,} threads" for threads in bounds]
        yield Cause(kind="bounds", evidence=f"launch bounds {words[0]} → {words[1]}")
    allowed = [each.sass.register_limit if each.sass else None for each in (before, after)]
    if None not in allowed and allowed[0] != allowed[1]:
        words = ["none" if limit == MOST_REGISTERS else str(limit) for limit in allowed]
        yield Cause(kind="register-limit", evidence=f"register limit {words[0]} → {words[1]}")


def _tools(old: Maker | None, new: Maker | None) -> Iterator[Cause]:
    if old is None or new is None:
        return
    if old.version != new.version:
        yield Cause(kind="toolkit", evidence=f"CUDA {old.version} → {new.version}")
    if old.options and new.options and old.tool == new.tool:
        sets = [{*_BEFORE_OPTION.split(each.options.strip())} - _WITHOUT_MEANING for each in (old, new)]
        gone, come = " ".join(sorted(sets[0] - sets[1])), " ".join(sorted(sets[1] - sets[0]))
        if gone or come:
            yield Cause(kind="options", evidence=f"options {gone or 'none'} → {come or 'none'}")


def _arrays(before: Kernel, after: Kernel) -> Iterator[Cause]:
    """Local arrays in memory, if there was none."""
    arrays = [each.sass.local.of("array") if each.sass else None for each in (before, after)]
    if after.sass is None or arrays[0] is None or arrays[1] is None or arrays[0].accesses or not arrays[1].accesses:
        return
    lines = [_place(each.place) for each in culprits(after.sass.local, "array")[:_SHOWN]]
    at = f" at {', '.join(lines)}" if lines else ""
    yield Cause(kind="array", evidence=f"accesses to a local array now move {arrays[1].bytes:,} B{at}")


def _code(kernels: tuple[Kernel, Kernel], codes: tuple[Pressure, Pressure]) -> Iterator[Cause]:
    """Calls, and source lines with more instructions."""
    if codes[0].calls != codes[1].calls:
        yield Cause(kind="calls", evidence=f"calls {codes[0].calls:,} → {codes[1].calls:,}")
    old, new = (_by_line(kernel, code) for kernel, code in zip(kernels, codes, strict=True))
    counts = moved(old, new, _LEAST_MORE) if old else []
    if any(after > before for _, before, after in counts):
        yield Cause(kind="lines", evidence=f"instructions by line: {_listed(counts)}")


def _by_line(kernel: Kernel, code: Pressure) -> Counter[str]:
    """Instructions by line, without accesses to local memory, which are an effect of register pressure."""
    local = {each.address for each in kernel.sass.local.accesses} if kernel.sass else set()
    rows = enumerate(code.sources)
    return Counter(_place(line) for row, line in rows if line is not None and row * INSTRUCTION not in local)


def _at_peak(code: Pressure) -> Counter[str]:
    """Registers that are live at the peak by the line that wrote them."""
    return Counter(_place(each.source) for each in code.ranges if each.source is not None for _ in each.registers)


def _listed(counts: Iterable[Moved]) -> str:
    return ", ".join(f"{name} {before:,} → {after:,}" for name, before, after in [*counts][:_SHOWN])


def _place(line: SourceLine) -> str:
    """``gemm.cu:31``, without the places that it was inlined at."""
    return where(SourceLine(file=line.file, line=line.line))
