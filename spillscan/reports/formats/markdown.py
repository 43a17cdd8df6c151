"""Markdown for a pull-request comment or a job summary: a verdict, one table, the rest folded.

GitHub accepts comments of 65,536 characters and summaries of 1 MiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.judging.compare.metrics import totals
from spillscan.judging.places import BY_NAME, costliest, source_place
from spillscan.judging.rule_docs import address
from spillscan.model import Build, Finding, Kernel, at_least
from spillscan.output.markdown import Row, code, fold, linked, table, within, words
from spillscan.output.nouns import count, size
from spillscan.output.safe import printable
from spillscan.output.terminal import Style
from spillscan.reading.machine.spillmap import TOP, share_text
from spillscan.reports import code_changes, pairings
from spillscan.reports.differences import change_table
from spillscan.reports.gaps import gap_lines
from spillscan.reports.groups import archs_cell
from spillscan.reports.kernels import kernel_table
from spillscan.reports.report import ALL_KINDS, NextStep, Report
from spillscan.reports.words import (
    LONGEST_ARCH,
    LONGEST_NAME,
    alike,
    baseline_lines,
    copy_number,
    inputs_of,
    label_of,
    place_text,
    step_markdown,
    summary,
)

FORMAT = "markdown"
HELP = "Markdown for a comment on a pull request or a step summary"
KINDS = ALL_KINDS

MARK = "<!-- spillscan -->"
"""Last line of every report, by which a workflow finds the comment to update."""
TABLE_BYTES = 15_000
"""UTF-8 bytes per table.

A report has at most three; with everything else it stays below GitHub's 65,536 characters.
"""
CODE_BYTES = 10_000
"""Bytes of the section on machine code."""
SHOWN = 20
"""Rows shown unfolded."""
_FOLDED = 200
"""Rows in a folded table; the rest is counted."""
_CHANGES = 40
"""Rows of changes; if there are more, the worst of each family."""
_ONE_ROW = 4
"""Rows of a family and rule from which only the worst is shown unfolded."""
_LIST_BYTES = 8_000
"""Bytes of a list of advice."""
_EXPLAINED, _COMPARED, _LONGEST_REASON = 5, 12, 300
"""Changes whose growth is explained, kernels whose code comparison is shown, and characters per reason."""
_HIDDEN = ("cmem", "bar", "unit", "in loops", "live")
"""Columns of the kernel table that a comment has no room for."""


def render(report: Report, style: Style) -> Iterator[str]:
    """Yield the report; its last line is :data:`MARK`."""
    parts = {"scan": _scan, "check": _check, "diff": _diff}[report.kind](report)
    yield "\n".join(parts) + f"\n\n{MARK}\n"


def _head(report: Report, verdict: str, facts: Iterable[str]) -> Iterator[str]:
    """The verdict as a heading, and one line of facts."""
    yield f"### {_mark(report)}spillscan: {verdict}{', incomplete input' * bool(report.gaps)}"
    yield ""
    yield " · ".join(filter(None, facts))


def _build_facts(report: Report) -> Iterator[str]:
    """Facts about the build: summary, uncertainties, baseline, and a link to this run."""
    for line in summary(report.build).splitlines():
        yield words(line.lstrip("?* "))
    yield from baseline_lines(report)
    if report.tree.run:
        yield linked("this run", report.tree.run)


# ---- scan ---------------------------------------------------------------------------------------------------------


def _scan(report: Report) -> Iterator[str]:
    kernels = [kernel for kernel in report.build.kernels if kernel.role != "function"]
    spilling = sum(bool(sum(kernel.spills or ())) for kernel in kernels)
    yield from _head(report, f"{spilling:,} of {count(len(kernels), 'kernel')} spilling", _build_facts(report))
    listing = kernel_table(report, SHOWN + _FOLDED)
    listing = replace(listing, columns=[each for each in listing.columns if each.head not in _HIDDEN])
    if listing.rows:
        yield ""
        yield from replace(listing, rows=listing.rows[:SHOWN], hidden=0).markdown(most_bytes=TABLE_BYTES)
    if rest := listing.rows[SHOWN:]:
        yield ""
        yield from fold(count(len(rest), "more row"), replace(listing, rows=rest).markdown(most_bytes=TABLE_BYTES))


# ---- check and diff -----------------------------------------------------------------------------------------------


def _check(report: Report) -> Iterator[str]:
    findings = report.open_findings
    kernels = _kernels(findings)
    verdict = f"{count(len(findings), 'finding')}{f' in {kernels}' if findings else ''}"
    yield from _head(report, verdict, _build_facts(report))
    yield from _check_result(report)
    notes = [f"- {words(printable(each.message))}" for each in report.of_baseline[:SHOWN]]
    yield from ("", *notes) if notes else ()
    yield from _folded_list("accept", [f"- {code(each, _LONGEST_REASON)}" for each in report.details.accept])
    yield from _folded_list("not checked", [f"- {words(each)}" for each in report.details.not_checked])


def _diff(report: Report) -> Iterator[str]:
    severe = _severe(report.open_findings)
    verdict = f"{_kernels(severe)} regressed" if severe else "no regressions"
    base, head = (code(inputs_of(each), LONGEST_NAME) for each in (report.base or Build(), report.build))
    also = [words(each) for each in (*pairings.toolkits(report), *pairings.other_code(report), *pairings.archs(report))]
    facts = [_deltas(report), f"base {base} → head {head}", *_build_facts(report), *also]
    yield from _head(report, verdict, facts)
    yield from _check_result(report)
    changed = change_table(report, _CHANGES)
    if changed.rows:
        yield ""
        yield from fold(", ".join(pairings.counts(report.changes)), changed.markdown(most_bytes=TABLE_BYTES))
    yield from _code(report)
    grown = report.growths(_EXPLAINED)
    lines = []
    for each in grown:
        lines.append(f"- {_name(report, each.after)} {code(each.after.key.arch or 'arch unknown', LONGEST_ARCH)}")
        lines += [f"  - {words(printable(line, _LONGEST_REASON))}" for line in each.sentences()]
    yield from _folded_list("causes", lines)


def _mark(report: Report) -> str:
    """Emoji for the result of the gate: failed, warnings, or passed; empty without a gate."""
    fails = report.gaps or any(at_least(each.severity, report.fail_on) for each in report.open_findings)
    mark = "❌" if fails else "⚠️" if _severe(report.open_findings) else "✅"
    return "" if report.kind == "scan" else f"{mark} "


def _kernels(findings: Sequence[Finding]) -> str:
    return count(len({id(each.kernel) for each in findings}), "kernel")


def _severe(findings: Sequence[Finding]) -> list[Finding]:
    return [each for each in findings if at_least(each.severity, "warning")]


def _deltas(report: Report) -> str:
    """``**+520 B spills, −2 blocks/SM**``: change of all spills, and the most blocks that one kernel lost."""
    spills = totals((report.base or Build()).kernels, report.changes, ("spill_store_bytes", "spill_load_bytes"))
    moved = sum(each.after - each.before for each in spills)
    pairs = (effect.blocks for change in report.changes for effect in change.effects if effect.blocks)
    lost = max((before - after for before, after in pairs), default=0)
    deltas = [f"{size(moved, '+')} spills".replace("-", "−")] * bool(moved) + [f"−{lost} blocks/SM"] * (lost > 0)
    return f"**{', '.join(deltas)}**" if deltas else ""


def _check_result(report: Report) -> Iterator[str]:
    """Gaps and severe findings; then, folded, next steps, other findings and accepted gaps."""
    if report.gaps:
        yield from ("", f"**Incomplete input{'; the gate cannot pass' * (report.fail_on != 'never')}:**", "")
        yield from (f"- {words(line)}" for line in gap_lines(report.gaps, report.names))
    shown, others = _rows(_severe(report.open_findings), report)
    if shown:
        yield ""
        yield from _finding_table(report, shown)
    yield from _next_steps(report.details.steps, report)
    notes, more = _rows([each for each in report.open_findings if not at_least(each.severity, "warning")], report)
    for rows, noun in ((others, "more finding"), ([*notes, *more], "note")):
        if rows:
            yield ""
            yield from fold(count(sum(len(each.findings) for each in rows), noun), _finding_table(report, rows))
    accepted = [f"- {words(line)}" for line in gap_lines(report.accepted, report.names)]
    yield from _folded_list(count(len(report.accepted), "accepted gap"), accepted)


class _FindingRow(NamedTuple):
    """Equal findings of several archs of a kernel, and the number of similar findings without a row next to it."""

    findings: Sequence[Finding]
    more: int = 0


def _rows(findings: Sequence[Finding], report: Report) -> tuple[list[_FindingRow], list[_FindingRow]]:
    """(rows to show, rows to fold): of many rows of a family and rule, only the worst is shown."""
    shown: list[_FindingRow] = []
    folded: list[_FindingRow] = []
    for group in alike(findings, report):
        equal: dict[object, list[Finding]] = {}
        for each in group:
            key = _name(report, each.kernel), each.message, str(source_place(each, report.tree))
            equal.setdefault(key, []).append(each)
        rows = [_FindingRow(each) for each in equal.values()]
        if len(rows) >= _ONE_ROW or report.by:
            shown.append(rows[0]._replace(more=len(rows) - 1))
            folded += rows[1:]
        else:
            shown += rows
    return shown[:SHOWN], [each._replace(more=0) for each in shown[SHOWN:]] + folded


def _next_steps(steps: Sequence[NextStep], report: Report) -> Iterator[str]:
    """Folded list of cause, other fixes and command of the first families."""
    lines = []
    for step in steps:
        lines.append(f"- **{_name(report, step.kernel)}**")
        lines += [f"  - {line}" for line in step_markdown(step, but=_fix(step))]
    yield from _folded_list("next steps", lines)


def _finding_table(report: Report, listed: Sequence[_FindingRow]) -> Iterator[str]:
    """Table of findings; the folder common to all places is in a column head."""
    rows = [_cells(report, each) for each in listed[:_FOLDED]]
    yield from table(("kernel", "arch", "finding", "line", "fix"), rows, (), TABLE_BYTES, len(listed) - len(rows))


def _cells(report: Report, row: _FindingRow) -> Row:
    finding = row.findings[0]
    rule = linked(code(finding.rule), address("rules", finding.rule) if report.tree.web else "")
    severity = "warning: " if finding.severity == "warning" else ""
    name = _name(report, finding.kernel, placed=source_place(finding, report.tree) is None)
    name += f" and {row.more:,} more" if row.more else ""
    archs = code(archs_cell(each.kernel.key.arch for each in row.findings), 2 * LONGEST_ARCH)
    fix = next((_fix(step) for step in report.details.steps if step.finding in row.findings), "")
    text = f"{severity}{words(finding.message)} {rule}"
    return name, archs, text, _where(report, finding), words(fix) if fix else ""


def _fix(step: NextStep) -> str:
    """Text of the first fix; empty if there is none."""
    return next((text for heading, text in step.lines if heading not in ("cause", "next")), "")


def _where(report: Report, finding: Finding) -> str:
    """Costliest lines of spills and arrays with their shares, else the line of the source or log."""
    cells = []
    for place in costliest(finding, report.tree)[:TOP] or filter(None, [source_place(finding, report.tree)]):
        inlined = f" (inlined: {code(place.inner)})" if place.inner else BY_NAME if place.by_name else ""
        share = "" if place.share is None else f" {share_text(place.share)}"
        cells.append(linked(code(str(place)), report.tree.link(place)) + inlined + share)
    return ", ".join(cells) or code(place_text(finding, report))


def _code(report: Report) -> Iterator[str]:
    """Folded section on changed machine code."""
    if first := code_changes.summary(report):
        lines = []
        for each in [each for each in report.code_changes or () if each.verdict != "identical"][:_COMPARED]:
            lines.append(f"- {words(f'{label_of(each.change.kernel, report.names)}: {each.verdict}')}")
            lines += [f"  - {words(printable(line, _LONGEST_REASON))}" for line in code_changes.code_lines(each)[1:]]
        kept, left_out = within(lines, CODE_BYTES)
        more = [f"- … {count(left_out, 'more line')} (-f json has all)"] if left_out else []
        yield ""
        yield from fold(first, [*kept, *more]) if lines else (first,)


# ---- shared by the kinds ------------------------------------------------------------------------------------------


def _folded_list(title: str, lines: Sequence[str]) -> Iterator[str]:
    kept, _ = within(lines, _LIST_BYTES)
    if kept:
        yield ""
        yield from fold(title, kept)


def _name(report: Report, kernel: Kernel, placed: bool = False) -> str:
    """The kernel's name; unless its place is shown (``placed``), also the library that contains this copy."""
    parts = [report.names.of(kernel.named_by), *filter(None, (copy_number(kernel),))]
    caller = f" in {code(report.names.of(kernel.caller), LONGEST_NAME)}" if kernel.caller else ""
    library = "" if placed else report.copies.get(id(kernel), "")
    within = f" in {code(library, LONGEST_NAME)}" if library else ""
    return " ".join(code(each, LONGEST_NAME) for each in parts) + caller + within
