"""Markdown for a comment on a pull request or a job's summary: a line where all is well, the worst first, the rest
folded, and never too long for a comment.

GitHub takes comments of 65,536 characters and summaries of 1 MiB. What a rule calls an error or a warning is shown at
once; notes and changes that no rule minds are folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import commonprefix

from spillscan.advice.families import facts
from spillscan.advice.ranking import why_here
from spillscan.judging.places import BY_NAME, Place, heaviest, source_place
from spillscan.judging.rule_docs import address
from spillscan.model import Finding, Kernel, at_least
from spillscan.model.build import damage
from spillscan.model.figures import figure
from spillscan.occupancy.summary import summarise
from spillscan.output.markdown import Row, code, fold, linked, table, within, words
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.output.terminal import Style
from spillscan.reading.machine.spillmap import TOP, share_text
from spillscan.reports import code_changes, pairings
from spillscan.reports.differences import Entry, archs_of, entries, families, held_by, pair_of, summed_up
from spillscan.reports.groups import INSTANCES, By, Group, grouped, shared_label
from spillscan.reports.report import ALL_KINDS, Report
from spillscan.reports.words import (
    LONGEST_ARCH,
    LONGEST_LINE,
    LONGEST_NAME,
    UNCOUNTED,
    alike,
    baseline_line,
    bounds,
    copy_number,
    fails,
    gap_lines,
    name_of,
    place_text,
    spills_of,
    summary,
    way_markdown,
)

FORMAT = "markdown"
HELP = "Markdown for a comment on a pull request or a step summary"
KINDS = ALL_KINDS

MARK = "<!-- spillscan -->"
"""Ends every report: by it a workflow finds the comment to write anew."""
TABLE_BYTES = 17_000
"""Of one table, in UTF-8. A report has three at most: with all else it stays under GitHub's 65,536 characters."""
CODE_BYTES = 10_000
"""Of what became of machine code."""
SHOWN = 20
"""Rows that are shown at once."""
_FOLDED = 200
"""Rows that are folded; the rest is counted."""
_ONE_ROW = 4
"""Findings of one family by one rule that share a row; fewer have one each."""
_FIRST_BYTES, _FIRST = 8_000, 5
"""Of what is to be done first, and of how many families that is said."""
_EXPLAINED, _LONGEST_REASON = 5, 300
"""Changes of which it is said why they grew; characters of each reason."""
_NUMBERS = ("registers", "stores", "loads", "stack", "shared", "occupancy")


def render(report: Report, style: Style) -> Iterator[str]:
    """The report; its last line ends with :data:`MARK`."""
    parts = {"scan": _scan, "check": _check, "diff": _diff}[report.kind](report)
    body = "\n".join(parts)
    yield f"{body}{_gap(body)}{MARK}\n"


def _gap(body: str) -> str:
    """A single line carries the mark itself; an HTML block must not swallow it."""
    return " " if "\n" not in body else "\n\n"


# ---- scan ---------------------------------------------------------------------------------------------------------


def _scan(report: Report) -> Iterator[str]:
    kernels = sorted((kernel for kernel in report.build.kernels if not kernel.is_helper), key=damage)
    by: By = report.by or ("family" if len(kernels) > SHOWN else "kernel")
    groups = list(grouped(kernels, by, report.names))
    spilling = [group for group in groups if group.spilling]
    rest = spilling[SHOWN:] + [group for group in groups if not group.spilling]
    yield f"**spillscan** {_sentence(report)}"
    header = ("kernel", *_NUMBERS, "limited by")
    if spilling:
        yield ""
        yield from _sized(header, [_kernel_row(report, group) for group in spilling[:SHOWN]], "row")
    yield from _first(report)
    if rest:
        rows = [_kernel_row(report, group) for group in rest[:_FOLDED]]
        number = sum(len(group.kernels) for group in rest)
        yield ""
        yield from fold(
            count(number, "other kernel" if spilling else "kernel"), _sized(header, rows, "row", len(rest) - len(rows))
        )


def _ways(report: Report) -> Iterator[str]:
    """The way on from what fails, at most three lines a family."""
    lines = []
    for way in report.details.ways:
        lines.append(f"- **{_name(report, way.kernel)}**")
        lines += [f"  - {each}" for each in way_markdown(way)]
    kept, _ = within(lines, _FIRST_BYTES)
    yield from ("", *kept) if kept else ()


def _first(report: Report) -> Iterator[str]:
    """What to do first, folded, as ``advise`` says it; after findings, about these."""
    lines = []
    found = {id(finding.kernel) for finding in report.open_findings}
    about = [each for each in report.first if report.kind == "scan" or found & set(map(id, each.kernels))]
    for each in about[:_FIRST]:
        lines.append(f"- **{_name(report, each.worst)}** {words(why_here(each))}")
        said = facts(report.advice(each))
        lines += [f"  - {heading}: {words(printable(text, _LONGEST_REASON))}" for heading, text in said]
    kept, _ = within(lines, _FIRST_BYTES)
    if kept:
        yield ""
        yield from fold("what to do first", kept)


def _kernel_row(report: Report, group: Group) -> Row:
    """The worst kernel of a group, and how many it stands for."""
    kernel = group.kernels[0]
    usage = kernel.usage
    more = ""
    if len(group.kernels) > 1:
        more = f"; worst of {len(group.kernels):,}" + (f", {group.spilling:,} spilling" if group.spilling else "")
    found = summarise(usage, kernel.key.arch, report.launches.launch_of(kernel))
    occupancy, limiter = "-", "-"
    if kernel.role != "function" and found.occupancy is not None:
        occupancy = (code if found.mark == "~" else words)(found.cells["occupancy"])
        limiter = words(found.cells["limiter"])
    registers, *memory = map(_figure, (usage.registers, usage.stack_bytes, usage.shared_bytes))
    return (_name(report, kernel) + more, registers, *spills_of(kernel, "-"), *memory, occupancy, limiter)


# ---- check --------------------------------------------------------------------------------------------------------


def _check(report: Report) -> Iterator[str]:
    severe, mild = _by_severity(report)
    found = f"**{count(len(severe) + len(mild), 'finding')}**" if severe or mild else "no findings"
    uncounted = "" if report.build.units else f"; {UNCOUNTED}"
    yield f"**spillscan** {found} in {_sentence(report)}{uncounted}"
    yield from _unknown(report)
    yield from _findings(report, severe, mild)
    notes = [f"- {words(printable(each.message))}" for each in report.of_baseline[:SHOWN]]
    yield from ("", *notes) if notes else ()


# ---- diff ---------------------------------------------------------------------------------------------------------


def _diff(report: Report) -> Iterator[str]:
    changes = report.changes
    if not changes and not report.findings and not report.gaps and not report.code_changes:
        yield f"**spillscan** same figures in {_sentence(report)}{_aside(report)}"
        return
    severe, _ = _by_severity(report)
    found = f"**{count(len(severe), 'regression')}**" if severe else "no regressions"
    yield f"**spillscan** {found} in {_sentence(report)}{_aside(report)}"
    yield from _unknown(report)
    yield from _findings(report, severe, [])
    for line in pairings.archs(report):
        yield ""
        yield words(line)
    rows, left_out = _changes(report)
    if rows:
        yield ""
        yield from fold(
            ", ".join(pairings.counts(changes)),
            _sized(("kernel", "metric", "before → after"), rows, "change", left_out),
        )
    yield from _code(report)
    yield from _why(report)


def _code(report: Report) -> Iterator[str]:
    """What became of machine code, folded."""
    if first := code_changes.summary(report):
        lines = [
            line
            for title, said in code_changes.markdown_lines(report)
            for line in (f"- {words(title)}", *(f"  - {words(printable(each, _LONGEST_REASON))}" for each in said))
        ]
        kept, left_out = within(lines, CODE_BYTES)
        more = [f"- … {count(left_out, 'line')} more: the JSON report has all"] if left_out else []
        yield ""
        yield from fold(first, [*kept, *more]) if lines else (first,)


def _why(report: Report) -> Iterator[str]:
    """Why registers and spills grew, of the worst, folded."""
    grown = report.growths(_EXPLAINED)
    if grown:
        lines = []
        for each in grown:
            lines.append(f"- {_name(report, each.after)}")
            lines += [f"  - {words(printable(line, _LONGEST_REASON))}" for line in each.sentences()]
        yield ""
        yield from fold(f"why {'they' if len(grown) > 1 else 'it'} grew", lines)


def _aside(report: Report) -> str:
    """What else is to be said of two builds."""
    return "".join(f"; {words(each)}" for each in (*pairings.other_code(report), *pairings.toolkits(report)))


def _changes(report: Report) -> tuple[list[Row], int]:
    """The rows of changes, and how many changes are left out: where they are many, of each family the worst."""
    found = entries(report)
    many = len(found) > SHOWN or report.by is not None
    rows: list[Row] = []
    left_out = sum(len(entry.changes) for entry in found)
    for family in families(found, report) if many else [[entry] for entry in found]:
        if len(rows) >= _FOLDED:
            break
        if len(family) > INSTANCES:
            name = shared_label(family[0].change.kernel, report.by or "family", report.names)
            rows.append((code(printable(name, LONGEST_NAME)), words(", ".join(summed_up(family))), ""))
        for entry in family[:INSTANCES]:
            rows += _change_rows(report, entry)
            left_out -= len(entry.changes)
    return rows, left_out


def _change_rows(report: Report, entry: Entry) -> Iterator[Row]:
    change = entry.change
    kernel = change.kernel
    name = f"{code(name_of(kernel, report.names))} {code(archs_of(entry), 2 * LONGEST_ARCH)}"
    name += _library(held_by(entry, report))
    if change.bounds:
        yield name, "launch bounds", bounds(change)
    elif not change.metrics:
        registers = kernel.usage.registers
        yield name, change.state, ("-" if registers is None else count(registers, "register"))
    for at, metric in enumerate(change.metrics):
        yield name if at == 0 and not change.bounds else "", words(figure(metric[0]).label), pair_of(metric)


# ---- what they share ----------------------------------------------------------------------------------------------


def _by_severity(report: Report) -> tuple[list[Finding], list[Finding]]:
    """(errors and warnings, notes) that no baseline excuses."""
    findings = report.open_findings
    severe = [finding for finding in findings if at_least(finding.severity, "warning")]
    return severe, [finding for finding in findings if not at_least(finding.severity, "warning")]


def _findings(report: Report, severe: Sequence[Finding], mild: Sequence[Finding]) -> Iterator[str]:
    """Those that matter, a row a family and rule where they are many; the way on; the others, folded."""
    groups = []
    for group in alike(severe, report):
        groups += [group] if len(group) >= _ONE_ROW or report.by else [[finding] for finding in group]
    shown, others = groups[:SHOWN], [finding for group in groups[:SHOWN] for finding in group[1:]]
    if severe:
        yield ""
        yield from _finding_table(report, shown)
        yield from _ways(report) if fails(report) else _first(report)
    for found, noun in (
        ([*groups[SHOWN:], *([finding] for finding in others)], "more finding"),
        (alike(mild, report), "note"),
    ):
        if found:
            yield ""
            yield from fold(count(sum(map(len, found)), noun), _finding_table(report, found))


def _finding_table(report: Report, groups: Sequence[Sequence[Finding]]) -> Iterator[str]:
    """A row a group; the folder that all their places are in is said once, above."""
    shown = groups[:_FOLDED]
    paths = [str(place) for group in shown for place in _places(report, group[0])]
    common = commonprefix(paths) if len(shown) > 1 else ""  # noqa: RUF071 - of which whole folders are kept
    folder = common[: common.rfind("/") + 1]
    rows = [_finding_row(report, group, folder) for group in shown]
    where = f"kernel, where in {code(folder, LONGEST_LINE)}" if folder else "kernel, where"
    yield from _sized(("finding", where), rows, "row", len(groups) - len(shown))


def _finding_row(report: Report, group: Sequence[Finding], folder: str) -> Row:
    finding = group[0]
    more = f" (and {len(group) - 1:,} more like it)" if len(group) > 1 else ""
    severity = f"**{finding.severity}**" if finding.severity == "error" else finding.severity
    placed = source_place(finding, report.tree) is None
    about = address("rules", finding.rule) if report.tree.web else ""
    said = f"{severity} {linked(code(finding.rule), about)}: {words(finding.message)}{more}"
    return said, f"{_name(report, finding.kernel, placed)}<br />{_where(report, finding, folder)}"


def _places(report: Report, finding: Finding) -> Sequence[Place | str]:
    """Of spills and arrays whose source is known the heaviest lines; else the line of the source, or of the log."""
    lines = heaviest(finding, report.tree)[:TOP]
    return lines or [source_place(finding, report.tree) or place_text(finding, report)]


def _where(report: Report, finding: Finding, folder: str) -> str:
    """Its places without the folder, each with what it has of the weight."""
    cells = []
    for place in _places(report, finding):
        shown = code(str(place).removeprefix(folder))
        if isinstance(place, str):
            return shown
        inlined = f" (inlined: {code(place.inner)})" if place.inner else BY_NAME if place.by_name else ""
        share = "" if place.share is None else f" {share_text(place.share)}"
        cells.append(linked(shown, report.tree.link(place)) + inlined + share)
    return ", ".join(cells)


def _unknown(report: Report) -> Iterator[str]:
    for title, gaps in (
        ("not known, so that no gate can pass", report.gaps),
        ("not known, accepted", report.accepted),
    ):
        if gaps:
            yield ""
            yield f"**{title}:**"
            yield ""
            yield from (f"- {words(line)}" for line in gap_lines(gaps, report.names))


def _sized(header: Row, rows: Sequence[Row], noun: str, more: int = 0) -> Iterator[str]:
    """A table that takes no more than its part of the report, and a line that counts what is left out."""
    right = [name for name in header if name in _NUMBERS]
    lines, left_out = within(table(header, rows, right), TABLE_BYTES)
    yield from lines
    if left_out + more:
        yield ""
        yield f"… {count(left_out + more, noun)} more: the JSON report has all"


def _name(report: Report, kernel: Kernel, placed: bool = False) -> str:
    """What it is called, and its arch; unless it is ``placed`` beside that, the library that holds this copy."""
    found = [name_of(kernel, report.names), *filter(None, (kernel.key.arch, copy_number(kernel)))]
    whose = f" in {code(report.names.of(kernel.caller), LONGEST_NAME)}" if kernel.caller else ""
    whose += "" if placed else _library(report.libraries.get(id(kernel), ""))
    return " ".join(code(each, LONGEST_NAME) for each in found) + whose


def _library(library: str) -> str:
    return f" in {code(library, LONGEST_NAME)}" if library else ""


def _figure(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _sentence(report: Report) -> str:
    """The build in one line."""
    line, *notes = summary(report.build).splitlines()
    kernels, _, arches = line.partition("; ")
    sentence = f"{words(kernels)}; {', '.join(map(code, arches.split(', ')))}" if arches else words(kernels)
    run = [linked("this run", report.tree.run)] if report.tree.run else []
    return "; ".join([sentence, *(words(note.lstrip("?* ")) for note in notes), *baseline_line(report), *run])
