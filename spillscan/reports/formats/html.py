"""One self-contained HTML page: overview, kernel table, and changes between two builds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spillscan.advice.causes import at_lines, live_groups
from spillscan.advice.families import Advice, facts
from spillscan.advice.fixes import fixes
from spillscan.advice.ranking import why_here
from spillscan.judging.places import source_place
from spillscan.judging.rule_docs import explanations
from spillscan.model import Finding, Kernel
from spillscan.model.build import damage
from spillscan.output.safe import printable
from spillscan.output.terminal import Style
from spillscan.reports.code_changes import code_lines
from spillscan.reports.formats import text
from spillscan.reports.gaps import gap_lines
from spillscan.reports.page.code import code_of
from spillscan.reports.page.columns import columns, sorted_by
from spillscan.reports.page.details import ASSETS as KERNEL_ASSETS
from spillscan.reports.page.details import details
from spillscan.reports.page.document import STATIC, document, head
from spillscan.reports.page.overview import Index, changes, findings, named, overview
from spillscan.reports.report import ALL_KINDS, EXPLAINED, Report
from spillscan.reports.words import baseline_lines, by_severity, inputs_of, lines_of, place_text

FORMAT = "html"
HELP = "one self-contained page"
KINDS = ALL_KINDS

_BECAME = 500
"""Kernels whose code comparison is on a page."""


def render(report: Report, style: Style) -> Iterator[str]:
    """Yield the HTML page; see ``docs/internals/page.md``."""
    data = payload(report)
    lines = (line for piece in text.render(report, STATIC) for line in piece.splitlines())
    yield from document(data["title"] or "spillscan", data, ASSETS, lines)


ASSETS = (
    "store",
    "filters",
    "treemap",
    "first",
    "overview",
    "kernels",
    "changes",
    *KERNEL_ASSETS,
)
"""Style sheets and scripts of a report's page, in loading order."""


def payload(report: Report) -> dict[str, Any]:
    """Data for the views of :mod:`spillscan.reports.page`, in the order of use."""
    kernels = sorted((kernel for kernel in report.build.kernels if not kernel.is_helper), key=damage)
    index = {id(kernel): number for number, kernel in enumerate(kernels)}
    first_view = {"changes": "Changes"} if report.kind == "diff" else {}
    data: dict[str, Any] = {
        **head(title(report), report.kind, {**first_view, "overview": "Overview", "table": "Kernels"}),
        "overview": overview(report.build),
        "asked": {"by": report.by, **({"sort": sorted_by(report.sort)} if report.sort else {})},
    }
    if report.kind != "scan":
        data["verdict"] = _verdict(report)
        data["findings"] = findings(report.findings, index, report.names, lambda finding: _place(finding, report))
    if report.kind == "diff":
        data["changes"] = changes(report, index)
    data["first"] = _first(report, index)
    if report.kind != "scan":
        rules = sorted({finding.rule for finding in report.findings})
        texts = explanations("rules")
        data["explained"] = {rule: [texts[rule].title, list(texts[rule].parts.items())] for rule in rules}
    data["kernels"] = columns(kernels, report.names)
    first = [index[id(each.worst)] for each in report.first]
    if report.details.code:
        data["code"] = _code(report, kernels, first)
        data["why"] = _sentences(((each.after, each.sentences()) for each in report.growths(EXPLAINED)), index)
    if report.code_changes:
        compared = report.code_changes[:_BECAME]
        data["became"] = _sentences(((each.change.after, code_lines(each)) for each in compared), index)
    if kernels:
        before = {
            index[id(change.after)]: change.before
            for change in report.changes
            if change.before is not None and id(change.after) in index
        }
        data |= details(kernels, report.launches, before, first)
    return data


_LONGEST_REASON = 600


def _sentences(lines: Iterable[tuple[Kernel | None, Iterable[str]]], index: Index) -> dict[int, list[str]]:
    """Lines about kernels of the table."""
    return {
        index[id(kernel)]: [printable(line, _LONGEST_REASON) for line in some]
        for kernel, some in lines
        if id(kernel) in index
    }


def _place(finding: Finding, report: Report) -> str:
    """Source lines of a finding by spill cost, else its place; with the library if several share the source."""
    lines = lines_of(finding, report)
    place = f"lines by cost: {lines}" if lines else place_text(finding, report)
    copy = report.copies.get(id(finding.kernel)) if source_place(finding, report.tree) else None
    return f"{place}, in {copy}" if copy else place


def _first(report: Report, index: Index) -> list[dict[str, Any]]:
    """Advice for the page: next steps of failing findings, then the families to fix first, as in ``advise``."""
    steps = report.details.steps
    shown = {step.made.ranked.family for step in steps}
    entries: list[tuple[str, str, Advice, Sequence[str]]] = [
        ("found", step.finding.message, step.made, [step.command] * bool(step.command)) for step in steps
    ]
    entries += [
        (each.about, why_here(each), report.advice(each), ()) for each in report.first if each.family not in shown
    ]
    return [
        {
            "kernel": index[id(made.ranked.worst)],
            **named(made.ranked.worst, report.names),
            "about": about,
            "why": printable(why, _LONGEST_REASON),
            "facts": [
                [heading, printable(text, None if heading == "next" else _LONGEST_REASON)]
                for heading, text in facts(made, commands)
            ],
        }
        for about, why, made, commands in entries
        if id(made.ranked.worst) in index
    ]


def _code(report: Report, kernels: Sequence[Kernel], first: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Machine code of kernels, with the first fix of those that spill."""
    code = code_of(kernels, report.details.code, report.details.texts, report.details.sources, first)
    for number, made in code.items():
        kernel, launch = kernels[number], report.launches.launch_of(kernels[number])
        pressure = report.details.code[id(kernel)]
        first_fix = next(iter(fixes(kernel, launch, pressure)), None) if _spills_alone(kernel) else None
        if first_fix is not None:
            made["relief"] = f"{first_fix.kind}: {first_fix.text}"
            if "code" in made and kernel.sass is not None:
                groups = live_groups(pressure, kernel.sass.local, report.tree)
                made["advice"] = {printable(line): advice for line, advice in at_lines(groups).items()}
    return code


def _spills_alone(kernel: Kernel) -> bool:
    """Whether the kernel spills in its own code, not as a function within another kernel's code."""
    return sum(kernel.spills or ()) > 0 and not kernel.caller


def _verdict(report: Report) -> dict[str, Any]:
    """Open findings by severity, gaps, accepted gaps, and what the baseline and the policy accept."""
    return {
        "counts": by_severity(report.open_findings),
        "gaps": gap_lines(report.gaps, report.names),
        "accepted": gap_lines(report.accepted, report.names),
        "baseline": list(baseline_lines(report)),
    }


def title(report: Report) -> str:
    """Inputs as a title: ``build.log``, ``base.log → head.log``, ``a.log and 3 more``; paths if the names are equal."""
    paths = [inputs_of(build) for build in (report.base, report.build) if build]
    names = [path.rstrip("/").rpartition("/")[2] for path in paths]
    return " → ".join(filter(None, names if len(set(names)) == len(names) else paths))
