"""Pairing of two builds as text: libraries that only one has, rename rules, and evidence for pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from spillscan.model import Change
from spillscan.model.symbols import natural
from spillscan.naming import Names, alone
from spillscan.naming.libraries import whole
from spillscan.output.nouns import count, listed
from spillscan.output.safe import printable
from spillscan.reports import words
from spillscan.reports.report import Report

_FEW_TOOLKITS = 4
"""Toolkit versions listed."""
_RULES = 5
"""Rename rules shown."""
_WIDEST = 60
"""Characters of a full name, and of a rule."""


def counts(changes: Sequence[Change]) -> list[str]:
    """``2 changed``, ``15 renamed (1 of them changed)``, ``0 added``, ``0 removed``."""
    states = Counter[str](change.state for change in changes)
    both = sum(change.differs for change in changes if change.state == "renamed")
    renamed = f"{states['renamed']:,} renamed" + (f" ({both:,} of them changed)" if both else "")
    return [
        f"{states['changed'] + both:,} changed",
        *([renamed] if states["renamed"] else []),
        f"{states['added']:,} added",
        f"{states['removed']:,} removed",
    ]


def whole_archs(report: Report) -> dict[str, str]:
    """Archs that only one build has, as ``new`` or ``gone``."""
    old, new = ({each.key.arch for each in build.kernels} if build else set() for build in (report.base, report.build))
    archs = sorted((arch for arch in old ^ new if arch), key=natural) if old and new else ()
    return {arch: "new" if arch in new else "gone" for arch in archs}


def archs(report: Report) -> Iterator[str]:
    """``archs new: sm_103, sm_121``: their kernels are among those added or removed."""
    state_of = whole_archs(report)
    for state in sorted(set(state_of.values())):
        named = ", ".join(arch for arch in state_of if state_of[arch] == state)
        yield f"archs {state}: {printable(named, words.LONGEST_NAME)}"


def other_code(report: Report) -> Iterator[str]:
    """Number of kernels with equal metrics and different code, unless the code was compared."""
    if report.recoded and report.code_changes is None:
        yield f"different code in {len(report.recoded):,} of those with the same metrics (--with code)"


def toolkits(report: Report) -> Iterator[str]:
    """Toolkit versions of the two builds if they differ, and the changed kernels that moved between toolkits."""
    old, new = report.toolkits
    if old == new or not old or not new:
        return
    yield f"toolkit: {_versions(old)} → {_versions(new)}"
    moved = [change for change in report.changes if change.toolkits]
    if moved:
        concerned = {id(change.kernel) for change in moved}
        counts = words.severities([each for each in words.counted(report) if id(each.kernel) in concerned])
        by = f" ({counts})" if counts else ""
        yield f"changed kernels compiled by another toolkit: {len(moved):,}{by}"


def _versions(versions: Sequence[str]) -> str:
    """``12.8.93, 13.0.88``; of many, the first and the number of the rest."""
    return printable(listed(versions[:_FEW_TOOLKITS], len(versions) - _FEW_TOOLKITS), _WIDEST)


def libraries(report: Report) -> Iterator[str]:
    """Shared libraries that only one build has, so that their kernels have no counterpart."""
    for state, build in (("added", report.build), ("removed", report.base)):
        some = [change.kernel for change in report.changes if change.state == state]
        for name, number in whole(some, build.kernels if build else ()).items():
            yield f"library {state}: {printable(name, words.LONGEST_NAME)} ({count(number, 'kernel')})"


def rules(changes: Sequence[Change]) -> Iterator[str]:
    """Substitutions that explain renames, those of the most kernels first."""
    known = Counter(
        (change.evidence.rule, change.evidence.explains) for change in changes if change.evidence.kind == "substitution"
    )
    if known:
        shown = [f"{printable(rule, _WIDEST)} in {count(n, 'kernel')}" for (rule, n), _ in known.most_common(_RULES)]
        yield f"renames: {listed(shown, len(known) - _RULES)}"


def former(change: Change, names: Names) -> str:
    """``was flash``; the full name if only the context of the names differs."""
    assert change.before is not None
    whole = alone(change.before.named_by) == alone(change.kernel.named_by)
    return f"was {printable(change.before.name, _WIDEST) if whole else names.of(change.before.named_by)}"


def renaming(change: Change, names: Names) -> str:
    """The new name, the old one, and the evidence: ``fa3, was flash (flash → fa3 in 15 kernels)``."""
    return f"{names.of(change.kernel.named_by)}, {former(change, names)} ({because(change)})"


def because(change: Change) -> str:
    """Evidence that a renamed kernel is the same: ``flash → fa3 in 15 kernels``, ``stated``."""
    evidence = change.evidence
    rule = printable(evidence.rule, _WIDEST)
    return "stated" if evidence.kind == "stated" else f"{rule} in {count(evidence.explains, 'kernel')}"
