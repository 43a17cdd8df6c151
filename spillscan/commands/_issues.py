"""Issues of an input on standard error, and the resulting exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spillscan.model import Issue, Kernel
from spillscan.output.errors import UndecidedError
from spillscan.output.nouns import count
from spillscan.output.terminal import complain

if TYPE_CHECKING:
    from spillscan.judging.verdict import Verdict

ISSUES_SHOWN = 8
_ORDER = {"error": 0, "warning": 1, "note": 2}


def report_issues(issues: Sequence[Issue]) -> None:
    """Print the most severe issues to standard error, one per line; if there are too many, some of each kind."""
    ranked = sorted(issues, key=lambda issue: _ORDER[issue.severity])
    if len(ranked) > ISSUES_SHOWN:
        before = Counter[str]()
        order = []
        for issue in ranked:
            order.append((_ORDER[issue.severity], before[issue.code]))
            before[issue.code] += 1
        ranked = [issue for _, issue in sorted(zip(order, ranked, strict=True), key=lambda pair: pair[0])]
    for issue in ranked[:ISSUES_SHOWN]:
        place = f"{issue.origin}: " if issue.origin else ""
        complain(f"{place}{issue.severity}: {issue.message} [{issue.code}]")
    if len(ranked) > ISSUES_SHOWN:
        more = count(len(ranked) - ISSUES_SHOWN, "more issue")
        complain(f"… {more} (`spillscan check -f json BUILD` lists all issues of a build)")


def conclude(result: Verdict, issues: Sequence[Issue] = (), *, shown: bool = False) -> int:
    """Exit status of a gate, after printing the ``issues`` of its input that are no gaps.

    If a gap keeps the gate from passing, raises UndecidedError with the first gap, unless the report on standard output
    has ``shown`` the gaps. A gate that cannot fail prints the gaps that the report has not shown.
    """
    first = result.gaps[0] if result.status == 2 else None
    gaps = (*result.gaps, *result.accepted) if shown or result.fails else ()
    listed = {(gap.code, gap.message, gap.origin) for gap in gaps}
    others = {(each.code, each.message, each.origin): each for each in issues}
    report_issues([issue for message, issue in others.items() if message not in listed])
    if first is None or shown:
        return result.status
    alike = [
        each.kernel for each in result.gaps if each.kernel and (each.code, each.message) == (first.code, first.message)
    ]
    more_gaps = len(result.gaps) - max(1, len(alike))
    name = f"{_families(alike)}: " if first.kernel else f"{first.origin}: " if first.origin else ""
    more = f", and {count(more_gaps, 'more gap')}" if more_gaps else ""
    from spillscan.judging.rule_docs import explanations

    known = explanations("gaps").get(first.code)  # a snapshot of a newer release may have other kinds
    fix = known.fix if known else "update spillscan: this release does not know the gap"
    raise UndecidedError(f"{name}{first.message} [{first.code}]{more}", fix)


def _families(kernels: Sequence[Kernel]) -> str:
    if len(kernels) == 1:
        return kernels[0].short_name
    from spillscan.naming import Names
    from spillscan.reports.words import families_of

    return f"{count(len(kernels), 'kernel')} ({families_of(kernels, Names(kernel.named_by for kernel in kernels))})"


def refuse_issues(issues: Sequence[Issue]) -> None:
    """``--strict``: raise UndecidedError if any issue is more than a note."""
    severe = [issue for issue in issues if issue.severity != "note"]
    if severe:
        what = f"{count(len(severe), 'issue')} in the input (--strict), the first: {severe[0].message}"
        raise UndecidedError(what, f"see `spillscan explain {severe[0].code}`")
