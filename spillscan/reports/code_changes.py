"""What became of machine code, for people: by family, what surely differs first, the heaviest loop first; by how much
it and the compile time grew, and the families that it is due to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from msgspec import Struct

from spillscan.judging.compare.code_changes import WORKS, said
from spillscan.model import Build, Kernel
from spillscan.model.figures import BY_NAME
from spillscan.model.findings import CodeChange, Hunk
from spillscan.output.nouns import count, size
from spillscan.output.safe import printable
from spillscan.output.terminal import Style, hung
from spillscan.reports.groups import archs_cell
from spillscan.reports.report import Report
from spillscan.reports.words import LONGEST_ARCH, LONGEST_NAME, name_of

_HUNKS = 3
"""Hunks that are shown of a family."""
_FAMILIES = 12
"""Families that text and Markdown show; JSON has all."""


class Alike(Struct, frozen=True, kw_only=True):
    """Kernels of one family of which the same is proven."""

    title: str
    """``gemm: 12 kernels, other work``."""
    lines: tuple[str, ...]
    """Of the one that moved most: what it is called, the evidence, its hunks."""
    changes: tuple[CodeChange, ...]
    """All of them."""


def summary(report: Report) -> str:
    """``code: 3 other work, 12 same work (proven)``; empty where nothing was asked, or all code is equal."""
    counts = Counter(each.work for each in report.code_changes or ())
    if report.code_changes is not None and not counts:
        return "code: no kernel of both builds is known to have other code"
    parts = [f"{counts[work]:,} {work}{' (proven)' * (work == 'same work')}" for work in WORKS if counts[work]]
    return f"code: {', '.join(parts)}" if parts else ""


def families(report: Report) -> list[Alike]:
    """What surely differs first, the largest families first."""
    groups: dict[tuple[int, str], list[CodeChange]] = defaultdict(list)
    for each in report.code_changes or ():
        groups[WORKS.index(each.work), report.names.base(each.change.kernel.named_by)].append(each)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1]))
    return [_alike(name, several, report) for (_, name), several in ordered]


def _alike(name: str, several: Sequence[CodeChange], report: Report) -> Alike:
    worst = max(several, key=lambda each: sum(weight(hunk) for hunk in each.hunks))
    kernel = worst.change.kernel
    archs = archs_cell({each.change.kernel.key.arch for each in several})
    title = f"{printable(name, LONGEST_NAME)}: {count(len(several), 'kernel')}, {worst.work}"
    called = f"{name_of(kernel, report.names)} {printable(kernel.key.arch or 'arch unknown', LONGEST_ARCH)}"
    left = len(worst.hunks) - _HUNKS
    hunks = [printable(hunk_line(each), 400) for each in worst.hunks[:_HUNKS]]
    lines = [called] if len(several) > 1 else []
    lines += [*worst.evidence, *hunks, *([count(left, "more place")] if left > 0 else [])]
    return Alike(title=f"{title} ({archs})", lines=tuple(lines), changes=tuple(several))


def code_lines(found: CodeChange) -> list[str]:
    """All of one kernel: what is proven, the evidence, its hunks."""
    return [found.work, *found.evidence, *map(hunk_line, found.hunks[:_HUNKS])]


def weight(hunk: Hunk) -> int:
    """How many instructions a hunk moved, ten times as much for each loop around them."""
    moved = sum(abs(after - before) for _, before, after in hunk.opcodes) + sum(number for _, number in hunk.altered)
    return int(moved * 10 ** min(hunk.depth or 0, 6))


def hunk_line(hunk: Hunk) -> str:
    """``in 2 loops, gemm.cu:31: FFMA 8 → 16; IMAD altered; live registers 40 → 56; spills 0 → 4``."""
    depth = "control not known" if hunk.depth is None else f"in {count(hunk.depth, 'loop')}"
    parts = [said(hunk.opcodes)] if hunk.opcodes else []
    parts += [", ".join(f"{name} ({number:,} altered)" for name, number in hunk.altered[:4])] if hunk.altered else []
    parts.append("live registers {:,} → {:,}".format(*hunk.live))
    parts += ["spills {:,} → {:,}".format(*hunk.spills)] if any(hunk.spills) else []
    return f"{depth}{', ' * bool(hunk.place)}{hunk.place}: {'; '.join(parts)}"


def text_lines(report: Report, style: Style) -> Iterator[str]:
    """For a terminal."""
    if not (first := summary(report)):
        return
    yield first
    found = families(report)
    shown = found if style.rows is None else found[:_FAMILIES]
    for family in shown:
        yield f"  {family.title}"
        yield from hung((f"    {line}" for line in family.lines), style, indent=6)
    if len(found) > len(shown):
        yield f"  … {count(len(found) - len(shown), 'more family', 'more families')}"


def markdown_lines(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    """(title, lines) of the families that a comment has room for."""
    return [(each.title, each.lines) for each in families(report)[:_FAMILIES]]


# By how much it grew.

_GROWN = 5
"""How many families code grew by are named."""
_NOISE, _NOISE_MS = 0.25, 1000
"""Compile times that differ by less, as a part of all and in milliseconds, say nothing."""


def code_bytes(report: Report) -> Iterator[str]:
    """By how much the machine code grew, and the families that it is due to; nothing where a kernel's is not known."""
    code_bytes = BY_NAME["code_bytes"].get
    assert code_bytes is not None
    grown = _by_family(report, ((change.before, change.after) for change in report.changes), code_bytes)
    if grown and (total := sum(grown.values())):
        yield f"machine code {size(total, '+')}: {_largest(grown, size)}"


def compile_time(report: Report) -> Iterator[str]:
    """By how much compile time grew, of all kernels, and by family; nothing of differences that are as likely noise."""
    base = report.base or Build()
    times = (filter(None, map(attrgetter("compile_ms"), build.kernels)) for build in (base, report.build))
    before, after = (sum(map(round, each)) for each in times)
    if abs(after - before) <= max(_NOISE_MS, before * _NOISE):
        return
    pairs = (*((kernel, None) for kernel in base.kernels), *((None, kernel) for kernel in report.build.kernels))
    if slower := _by_family(report, pairs, _milliseconds):
        yield f"compile time {before:,} ms {after - before:+,} ms: {_largest(slower, _spent)}"


def _by_family(
    report: Report, pairs: Iterable[tuple[Kernel | None, Kernel | None]], get: Callable[[Kernel], int | None]
) -> Counter[str] | None:
    """By how much a figure grew; ``None`` where it is not known."""
    found: Counter[str] = Counter()
    for before, after in pairs:
        values = [0 if side is None else get(side) for side in (before, after)]
        kernel = after or before
        if values[0] is None or values[1] is None or kernel is None:
            return None
        found[report.names.base(kernel.named_by)] += values[1] - values[0]
    return found


def _milliseconds(kernel: Kernel) -> int | None:
    """Device functions of whole programs have no time of their own."""
    return (0 if kernel.role == "function" else None) if kernel.compile_ms is None else round(kernel.compile_ms)


def _spent(milliseconds: int, sign: str) -> str:
    return f"{milliseconds:{sign},} ms"


def _largest(grown: Counter[str], text: Callable[[int, str], str]) -> str:
    ranked = sorted(((name, each) for name, each in grown.items() if each), key=lambda pair: (-abs(pair[1]), pair[0]))
    listed = ", ".join(f"{name} {text(each, '+')}" for name, each in ranked[:_GROWN])
    return listed + (f", {count(len(ranked) - _GROWN, 'more family', 'more families')}" if len(ranked) > _GROWN else "")
