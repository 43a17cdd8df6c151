"""How two builds were paired, for people: libraries of one alone, rules of renames, and why two kernels are one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from spillscan.model import Change
from spillscan.naming import Names, alone
from spillscan.naming.identity.libraries import whole
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.reports import words
from spillscan.reports.report import Report

_RULES = 5
"""How many rules of renames are shown."""
_WIDEST = 60
"""Characters of a full name, and of a rule."""


def libraries(report: Report) -> Iterator[str]:
    """Shared libraries that one build alone has: their kernels were compared with no others."""
    for state, build in (("added", report.build), ("removed", report.base)):
        some = [change.kernel for change in report.changes if change.state == state]
        for name, number in whole(some, build.kernels if build else ()).items():
            yield f"library {state}: {printable(name, words.LONGEST_NAME)} ({count(number, 'kernel')})"


def rules(changes: Sequence[Change]) -> Iterator[str]:
    """Which substitutions explain the renames, those of the most kernels first; and how many renames are guesses."""
    known = Counter(
        (change.evidence.rule, change.evidence.explains) for change in changes if change.evidence.kind == "substitution"
    )
    if known:
        shown = [f"{printable(rule, _WIDEST)} explains {number:,}" for (rule, number), _ in known.most_common(_RULES)]
        more = f", and {count(len(known) - _RULES, 'other rule')}" if len(known) > _RULES else ""
        yield f"renames: {'; '.join(shown)}{more}"
    guesses = sum(change.evidence.one_of is not None for change in changes)
    if guesses and guesses < len(changes):
        yield f"{count(guesses, 'rename')} may be another kernel's: no name nor code tells"


def renaming(change: Change, names: Names) -> str:
    """``old → new``, and how alike they are; where only what is around the names differs, the old one in full."""
    assert change.before is not None
    old, new = names.of(change.before.named_by), names.of(change.kernel.named_by)
    full = change.before.name
    both = (
        f"{old} → {new}"
        if alone(change.before.named_by) != alone(change.kernel.named_by)
        else f"was {full if len(full) <= _WIDEST else full[:_WIDEST] + '…'}"
    )
    return f"{both} ({_because(change)})"


def _because(change: Change) -> str:
    """Why a renamed kernel is taken for the same: ``flash → fa3 explains 15``, ``one of 3, 83% alike``."""
    evidence = change.evidence
    if evidence.one_of is not None:
        return f"{f'one of {evidence.one_of:,}' if evidence.one_of > 1 else 'perhaps'}, {change.score:.0%} alike"
    if evidence.kind == "substitution":
        return f"{printable(evidence.rule, _WIDEST)} explains {evidence.explains:,}"
    return "same code" if evidence.kind == "code" else f"{change.score:.0%} alike"
