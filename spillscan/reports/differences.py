"""Differences between two builds as text: each kernel before and after, worst first, and the totals."""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from msgspec import Struct

from spillscan.judging.compare.metrics import moved_to_shared, totals
from spillscan.model import SEVERITIES, Build, Change, Delta, Effect, Finding, Kernel
from spillscan.model.metrics import METRICS, find_metric
from spillscan.occupancy.model import limited_by
from spillscan.occupancy.summary import WORTH_SHOWING_BYTES
from spillscan.output.markdown import code
from spillscan.output.nouns import count, size
from spillscan.output.safe import printable
from spillscan.output.terminal import BOLD, GREEN, RED, YELLOW, Style, wrapped
from spillscan.reports import code_changes, listing, pairings, words
from spillscan.reports.groups import INSTANCES, archs_cell, shared_label
from spillscan.reports.report import Report
from spillscan.reports.table import Column, Line, Table

_OWN_COLUMN = ("resident_blocks", "active_warps")
_COUNTS = tuple(each.name for each in METRICS if each.name.endswith(("_stores", "_loads")))
"""Instruction counts, shown only if no other metric of the kernel changed."""
_NEEDED = ("spill_store_bytes", "spill_load_bytes", "registers")
_SUMMED = ("spill_store_bytes", "spill_load_bytes", "stack_bytes", "shared_bytes")
_COUNTED = ("registers", "resident_blocks")
"""Metrics without a meaningful sum."""
_FOOTPRINT = "footprint_bytes"
_METRICS_TEXT = re.compile(r"^[a-z ]+:?(?: ?[a-z ]*[\d,]+ → [\d,]+(?: B)? \(\+[\d,]+\)[,;]?)+ ?")
"""Start of a finding's message that repeats a row of the table."""


class ChangeRow(NamedTuple):
    """One row about a changed kernel; the first of its rows names the kernel."""

    name: str
    archs: str
    metric: str
    values: str
    blocks: str = ""
    limiter: str = ""
    color: str = ""


_COLUMNS: tuple[Column[ChangeRow], ...] = (
    Column("kernel", None, lambda row: row.name, True, marked=lambda row: code(row.name) if row.name else ""),
    Column("arch", None, lambda row: row.archs, True, marked=lambda row: code(row.archs) if row.archs else ""),
    Column("metric", None, lambda row: row.metric, True),
    Column("before → after", None, lambda row: row.values, True),
    Column("blocks/SM", None, lambda row: row.blocks),
    Column("limited by (threads)", None, lambda row: row.limiter, True, spare=1),
)


def lines(report: Report, style: Style) -> Iterator[str]:
    """Table of the changes, counts, and the verdict."""
    yield from wrapped(pairings.toolkits(report), style)
    if report.changes:
        changed = change_table(report, style.rows, with_findings=True)
        yield from (*changed.text(style), "") if changed.rows else ()
        yield from wrapped((*pairings.archs(report), _counts(report)), style)
    else:
        yield f"same metrics in {words.checked(report.build.named)}{', as far as known' if report.gaps else ''}"
    notes = (*pairings.other_code(report), *pairings.libraries(report), *pairings.rules(report.changes))
    yield from wrapped(notes, style)
    yield from code_changes.text_lines(report, style)
    states = Counter[str](change.state for change in report.changes)
    if states["added"] and states["added"] == len(report.build.kernels) and states["removed"]:
        yield "no kernel is in both builds; to compare different archs, use --by arch"
    shown_above = {id(change.kernel) for change in report.changes}
    rest = [each for each in words.counted(report) if id(each.kernel) not in shown_above]
    yield from listing.verdict_lines(report, style, rest)


def change_table(report: Report, most: int | None, with_findings: bool = False) -> Table[ChangeRow]:
    """One row per changed metric, and the totals; on request, findings below their kernel's rows.

    Changes are grouped by family if they need more rows than ``most``.
    """
    changed = entries(report)
    shown = chosen(changed, report, most)
    rows: list[ChangeRow | Line] = []
    for family, several in shown:
        rows += [] if family is None else [Line(_title(family, report))]
        for entry in several:
            under = family is not None and report.by in (None, "family")
            rows += _rows(entry, words.cell(entry.change.kernel, report.names, under=under), report)
            rows += _finding_lines(entry, report) if with_findings else ()
    entries_shown = [entry for _, several in shown for entry in several]
    blocks = any(effect.blocks for entry in entries_shown for effect in entry.change.effects)
    kept = set(map(id, entries_shown))
    rest = [entry for entry in changed if id(entry) not in kept]
    severe = words.severities([finding for entry in rest for finding in entry.findings])
    return Table(
        columns=_COLUMNS if blocks else _COLUMNS[:4],
        rows=[*rows, *_total_rows(report)] if rows else (),
        hidden=sum(len(entry.changes) for entry in rest),
        counted="change",
        remark=f", {severe} among them" if severe else "",
        color=lambda row: row.color,
    )


def _counts(report: Report) -> str:
    """``2 changed, 0 added, 0 removed, 10 unchanged``."""
    open_ones = {id(gap.kernel) for gap in report.gaps}
    unknown = sum(id(change.kernel) in open_ones for change in report.unsettled)
    paired = sum(change.state != "removed" for change in report.changes)
    same = len(report.build.named.kernels) - paired - unknown
    counts = [*pairings.counts(report.changes), f"{same:,} with the same metrics"]
    return ", ".join([*counts, f"{unknown:,} unknown"] if unknown else counts)


class Entry(Struct, frozen=True):
    """Change that several archs of one kernel have in common."""

    changes: Sequence[Change]
    """One per arch."""
    metrics: Sequence[Delta]
    """Metrics shown."""
    findings: Sequence[Finding]
    """Listed findings about any of the changes."""

    @property
    def change(self) -> Change:
        """The change shown for all archs."""
        return self.changes[0]

    @property
    def lines(self) -> int:
        """Approximate number of lines, without those of notes, which repeat the metrics."""
        severe = {(each.rule, each.severity) for each in self.findings if each.severity != "note"}
        return max(1, len(self.metrics)) + len(severe)


def entries(report: Report) -> list[Entry]:
    """All changes, the most severe findings or the largest growth of ``report.sort`` first; equal archs are merged.
    With findings of the same severity, added kernels come last.

    Kernels of an arch that only one build has are omitted unless they have an error or a warning;
    :func:`pairings.archs` names the archs.
    """
    findings: dict[int, list[Finding]] = defaultdict(list)
    for finding in words.counted(report):
        findings[id(finding.kernel)].append(finding)
    whole = pairings.whole_archs(report)
    alike: dict[object, list[Change]] = defaultdict(list)
    for change in report.changes:
        alone = change.state in ("added", "removed") and change.kernel.key.arch in whole
        if not alone or any(finding.severity != "note" for finding in findings.get(id(change.kernel), ())):
            alike[_alike(change)].append(change)
    found_entries = [
        Entry(each, _metrics(each[0]), [finding for change in each for finding in findings.get(id(change.kernel), ())])
        for each in alike.values()
    ]
    if report.sort is not None:
        return sorted(found_entries, key=lambda entry: -_growth_of(entry, report.sort))
    found_entries.sort(key=lambda entry: entry.change.state == "added")
    rank = SEVERITIES.index
    return sorted(found_entries, key=lambda entry: -max((rank(each.severity) for each in entry.findings), default=-1))


def _growth_of(entry: Entry, name: str | None) -> int:
    """Growth of the metric ``name`` in the arch where it grew most; negative if it fell."""
    return max(sum(_delta(metric) for metric in change.metrics if metric[0] == name) for change in entry.changes)


def _alike(change: Change) -> object:
    """Key that is equal for archs of one kernel with equal rows."""
    kernel = change.kernel
    before = change.before.named_by if change.before is not None else None
    about = brief(kernel) if change.state in ("added", "removed") else ""
    effects = [effect for effect in change.effects if effect.blocks]
    residency = tuple((_blocks(each, named=len(effects) > 1 or each.gpu is None), _limiters(each)) for each in effects)
    moved = change.before is not None and change.before.key.arch != kernel.key.arch and kernel.key.arch
    return (kernel.named_by, before, kernel.key.unit, change.state, _metrics(change), about, residency, moved,
            change.evidence, change.appeared, change.vanished)  # fmt: skip


def chosen(
    members: Sequence[Entry], report: Report, most: int | None
) -> Sequence[tuple[Sequence[Entry] | None, Sequence[Entry]]]:
    """(family, entries to show): all entries if they fit in ``most`` lines, else the worst of each family.

    An entry shown on its own has no family.
    """
    if report.by is None and (most is None or sum(entry.lines for entry in members) <= most):
        return [(None, [entry]) for entry in members]
    groups = _families(members, report)
    if most is None:
        return [(some if len(some) > 1 else None, some) for some in groups]
    for each in (INSTANCES, 1):
        shown = [(some if len(some) > 1 else None, some[:each]) for some in groups]
        if each == 1 or sum(map(_length, shown)) <= most:
            break
    taken = list(accumulate(map(_length, shown)))
    return shown[: max(1, bisect(taken, most))]


def _families(members: Sequence[Entry], report: Report) -> list[list[Entry]]:
    """Entries by group (``report.by``, by default the family), in the order of each group's first entry."""
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in members:
        groups[shared_label(entry.change.kernel, report.by or "family", report.names)].append(entry)
    return list(groups.values())


def _length(shown: tuple[Sequence[Entry] | None, Sequence[Entry]]) -> int:
    return (shown[0] is not None) + sum(entry.lines for entry in shown[1])


def _title(family: Sequence[Entry], report: Report) -> str:
    """``mul_mat_q: 20 errors; spills 12↑ +3,456 B; registers 20↑ 4↓; 169 changed``."""
    label = shared_label(family[0].change.kernel, report.by or "family", report.names)
    changes = [change for entry in family for change in entry.changes]
    parts = [words.severities([finding for entry in family for finding in entry.findings])]
    for noun, some in (("spills", ("spill_store_bytes", "spill_load_bytes")), ("registers", ("registers",))):
        deltas = [
            sum(_delta(each) for each in change.metrics if each[0].partition("[")[0] in some) for change in changes
        ]
        moved, total = _arrows(*(sum(sign * delta > 0 for delta in deltas) for sign in (1, -1))), sum(deltas)
        by = f" {size(total, '+')}" if noun == "spills" and total else ""
        parts.append(f"{noun} {moved}{by}" if moved else "")
    parts += [f"{number:,} {state}" for state, number in Counter(change.state for change in changes).items()]
    return f"{printable(label, words.LONGEST_NAME)}: {'; '.join(filter(None, parts))}"


def _arrows(rose: int, fell: int) -> str:
    """``20↑ 4↓``: how many rose and how many fell."""
    return " ".join(f"{number:,}{arrow}" for arrow, number in (("↑", rose), ("↓", fell)) if number)


def _finding_lines(entry: Entry, report: Report) -> Iterator[Line]:
    """``  error [registers] src/gla.cu:50: 32 → 48 allocated``: one line per rule, without the values in the table."""
    rules: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in entry.findings:
        rules[finding.rule, finding.severity].append(finding)
    for (rule, severity), several in rules.items():
        first = several[0]
        state = f", {first.baseline_state}" if first.baseline_state else ""
        places = list(dict.fromkeys(words.place_text(finding, report) for finding in several))
        more = f" (+{len(places) - 1})" if len(places) > 1 else ""
        text = _METRICS_TEXT.sub("", words.message_of(first))
        yield Line(f"  {severity} [{rule}{state}] {places[0]}{more}{': ' * bool(text)}{text}", listing.COLORS[severity])


def delta_text(delta: Delta) -> str:
    """``0 → 304 B (+304)``; memory footprints and bytes from 1 MiB with binary prefixes."""
    name, before, after = delta
    unit = find_metric(name).unit
    large = name.startswith(_FOOTPRINT) or (unit == "B" and max(before or 0, after or 0) >= 1 << 20)
    values = ["-" if each is None else size(each) if large else f"{each:,}" for each in (before, after)]
    text = f"{' → '.join(values)}{f' {unit}' if unit and not large else ''}"
    if before is None or after is None:
        return text
    grown = after - before
    return f"{text} ({size(grown, '+') if large else f'{grown:+,}' if grown else 0})"


def origin_of(entry: Entry, report: Report) -> str:
    """Library, source or unit of a kernel whose name is not unique, or the number of files; else empty."""
    places = {report.copies.get(id(change.kernel), "") for change in entry.changes}
    return next(iter(places)) if len(places) == 1 else count(len(places), "file")


def _rows(entry: Entry, name: str, report: Report) -> Iterator[ChangeRow]:
    """Rows for one entry."""
    change = entry.change
    kernel = change.kernel
    archs, place = archs_of(entry), printable(origin_of(entry, report), words.LONGEST_NAME)
    if change.state in ("added", "removed"):
        spills = change.state == "added" and any(kernel.spills or ())
        about = brief(kernel) + (f", in {place}" if place else "")
        yield ChangeRow(name, archs, change.state, about, color=RED if spills else "")
        return
    effects = [effect for effect in change.effects if effect.blocks]
    shown = [("renamed", pairings.former(change, report.names), "")] if change.state == "renamed" else []
    shown += [(find_metric(metric[0]).label, delta_text(metric), _color(metric)) for metric in entry.metrics]
    shown += _remarks(change)
    shown += [("in", place, "")] if place else []
    for at in range(max(1, len(shown), len(effects))):
        label, text, color = shown[at] if at < len(shown) else ("", "", "")
        blocks = limiter = ""
        if at < len(effects):
            effect = effects[at]
            blocks, limiter = _blocks(effect, named=len(effects) > 1), _limiters(effect)
            color = RED if effect.blocks and effect.blocks[1] < effect.blocks[0] else color
        yield ChangeRow(*((name, archs) if at == 0 else ("", "")), label, text, blocks, limiter, color)


def archs_of(entry: Entry) -> str:
    """``sm_80, 90``; ``sm_90 → sm_90a`` if the arch changed."""
    change = entry.change
    sides = dict.fromkeys(side.key.arch for side in (change.before, change.after) if side)
    if len(sides) > 1:
        return " → ".join(arch or "-" for arch in sides)
    return archs_cell([change.kernel.key.arch for change in entry.changes])


def _remarks(change: Change) -> list[tuple[str, str, str]]:
    """(label, text, color) of changes that are not metrics: launch bounds, compiler messages, shared-memory spills."""
    remarks = [("launch bounds", words.bounds(change), YELLOW)] if change.bounds else []
    remarks += [("new message", kind.replace("_", " "), YELLOW) for kind in change.appeared]
    remarks += [("message gone", kind.replace("_", " "), "") for kind in change.vanished]
    if moved_to_shared(change) and not any(name == "shared_spills" for name, _, _ in change.metrics):
        remarks.append(("", "spills may now be in shared memory", YELLOW))
    return remarks


def _metrics(change: Change) -> tuple[Delta, ...]:
    """Metrics of a change that the table shows."""
    return _shown_metrics(change.metrics, change.unknown)


@lru_cache(maxsize=1 << 12)
def _shown_metrics(metrics: tuple[Delta, ...], unknown: tuple[Delta, ...]) -> tuple[Delta, ...]:
    shown = [metric for metric in metrics if metric[0].partition("[")[0] not in _OWN_COLUMN and worth_showing(metric)]
    stacks = [metric[1:] for metric in shown if metric[0] in ("stack_bytes", "cumulative_stack_bytes")]
    if len(stacks) > len(set(stacks)):  # equal without calls
        shown = [metric for metric in shown if metric[0] != "cumulative_stack_bytes"]
    quiet = [metric for metric in shown if metric[0] not in _COUNTS]
    return (*(quiet or shown), *(metric for metric in unknown if metric[0] in _NEEDED))


def worth_showing(metric: Delta) -> bool:
    """Whether the metric is shown; small memory footprints are not."""
    name, before, after = metric
    return not name.startswith(_FOOTPRINT) or max(before or 0, after or 0) >= WORTH_SHOWING_BYTES


def _color(metric: Delta) -> str:
    name, before, after = metric
    if before is None or after is None:
        return YELLOW
    if not find_metric(name).severe:
        return ""
    return RED if after > before else GREEN


def brief(kernel: Kernel) -> str:
    """``40 registers, spills 8 B``: a kernel that only one build has."""
    usage = kernel.usage
    registers = f"{usage.registers} registers" if usage.registers is not None else "registers unknown"
    return registers + (f", spills {sum(kernel.spills):,} B" if kernel.spills and any(kernel.spills) else "")


def _blocks(effect: Effect, named: bool) -> str:
    assert effect.blocks is not None
    before, after = effect.blocks
    device = f" {effect.device}" if named else ""
    return (f"{after}" if before == after else f"{before} → {after}") + device


def _limiters(effect: Effect) -> str:
    before, after = map(limited_by, effect.limiters)
    limiter = after if before == after else f"{before} → {after}"
    dynamic = f", {effect.dynamic_shared_bytes:,} B" if effect.dynamic_shared_bytes else ""
    return f"{limiter} ({effect.threads_per_block:,}{dynamic})"


def _total_rows(report: Report) -> Iterator[ChangeRow]:
    """Rows of the totals over all kernels; of metrics without a meaningful sum, how many kernels rose and fell."""
    if len(report.changes) < 2:
        return
    order = (*_SUMMED, *_COUNTED)
    sums = totals((report.base or Build()).kernels, report.changes, order)
    lead = "total"
    for each in sorted(sums, key=lambda each: order.index(each.name)):
        summed = each.name in _SUMMED
        if summed or each.up or each.down:
            values = delta_text((each.name, each.before, each.after)) if summed else ""
            if each.kept != each.after - each.before and summed:
                values = f"{values[:-1]}; changed {each.kept:+,})"
            yield ChangeRow(lead, _arrows(each.up, each.down), find_metric(each.name).label, values, color=BOLD)
            lead = ""


def _delta(metric: Delta) -> int:
    return (metric[2] or 0) - (metric[1] or 0)
