"""Gaps for people and machines: equal ones are merged, and of each kind a few are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from spillscan.judging.places import place_in_input
from spillscan.model import Gap
from spillscan.naming import Names
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.reports.report import Report
from spillscan.reports.words import LONGEST_MESSAGE, LONGEST_NAME, Fields, families_of, label_of

_MOST_OF_A_KIND = 3
"""Lines per kind of gap in reports for people."""


class Missing(NamedTuple):
    """Equal gaps: the same message about one input, or about several kernels."""

    gap: Gap
    """The first of them."""
    number: int
    text: str
    """Printable message, with the kernel or the number of kernels."""

    @property
    def code(self) -> str:
        """Kind of the gaps."""
        return self.gap.code

    @property
    def place(self) -> str:
        """``build.log:48: ``; empty if the text names kernels."""
        return printable(f"{self.gap.origin}: ") if self.gap.origin and not self.gap.kernel else ""

    def __str__(self) -> str:
        accepted = "" if self.gap.accepted is None else f", accepted: {printable(self.gap.accepted, LONGEST_NAME)}"
        return f"{self.place}{self.text} [{self.code}{accepted}]"


def merged(gaps: Iterable[Gap], names: Names) -> list[Missing]:
    """Gaps by kind and message; those without a kernel also by origin."""
    groups: dict[tuple[str, str, object], list[Gap]] = {}
    for gap in gaps:
        groups.setdefault((gap.code, gap.message, None if gap.kernel else gap.origin), []).append(gap)
    ordered = sorted(groups.values(), key=lambda group: group[0].code)
    return [Missing(group[0], len(group), _text(group, names)) for group in ordered]


def _text(group: list[Gap], names: Names) -> str:
    kernels, message = [gap.kernel for gap in group if gap.kernel], printable(group[0].message, LONGEST_MESSAGE)
    if not kernels:
        return message
    several = f"{count(len(kernels), 'kernel')} ({families_of(kernels, names)})"
    return f"{label_of(kernels[0], names) if len(kernels) == 1 else several}: {message}"


def few_of_a_kind(gaps: Iterable[Gap], names: Names) -> Iterator[Missing | str]:
    """Merged gaps, a few of each kind; then a line for each kind that has more."""
    shown: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for each in merged(gaps, names):
        if shown[each.code] == _MOST_OF_A_KIND:
            left_out[each.code] += each.number
            continue
        shown[each.code] += 1
        yield each
    yield from (f"… {number:,} more [{code}]" for code, number in left_out.items())


def gap_lines(gaps: Iterable[Gap], names: Names) -> list[str]:
    """One printable line per group of equal gaps; of each kind a few lines and a count."""
    return [str(each) for each in few_of_a_kind(gaps, names)]


def gap_fields(report: Report) -> Iterator[Fields]:
    """Fields of gaps for machine-readable formats."""
    from hashlib import blake2s

    for each in merged(report.gaps, report.names):
        digest = blake2s(each.text.encode("utf-8", "replace"), digest_size=16).hexdigest()
        yield Fields(each.code, None, "", each.text, place_in_input(each.gap.origin, report.tree), digest)
