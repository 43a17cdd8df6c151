"""Two builds for people: one kernel after the other, worst first, what it was and what it is, and the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from spillscan.compare.figures import figures, moved_to_shared
from spillscan.model import Build, Change, Effect, Kernel, Metric
from spillscan.model.figures import BY_NAME, FIGURES, figure
from spillscan.naming import Names, alone
from spillscan.occupancy.summary import WORTH_SHOWING_BYTES
from spillscan.occupancy.text import size
from spillscan.output.terminal import BOLD, GREEN, RED, YELLOW, Row, Style, fold, table
from spillscan.reports import Report
from spillscan.reports._words import arches_of, count, named, regression_lines, unknown_lines

LIMITED = "limited by (threads)"
COLUMNS = ("kernel", "arch", "metric", "before → after", "blocks/SM", LIMITED)
_LEFT = ("kernel", "arch", "metric", "before → after", LIMITED)
_OWN_COLUMN = ("resident_blocks", "active_warps")
_COUNTS = tuple(each.name for each in FIGURES if each.name.endswith(("_stores", "_loads")))
"""Numbers of instructions: shown only where the bytes beside them stay the same."""
_NEEDED = ("spill_store_bytes", "spill_load_bytes", "registers")
_SUMMED = ("spill_store_bytes", "spill_load_bytes", "stack_bytes", "shared_bytes")
_COUNTED = ("registers", "resident_blocks")
"""What has no sum of use: how many kernels it rose and fell in."""
_FAMILIES = 5
"""How many families code grew by are named."""
_WIDEST = 60
"""Characters of a full name."""


def lines(report: Report, style: Style) -> Iterator[str]:
    """A row a change and figure, the totals, the count of changes, and the findings that matter."""
    changes = report.changes
    if not changes:
        kernels = count(len(report.build.kernels), "kernel")
        arches = arches_of(report.build)
        kind = "no known changes" if report.holes else "no changes"
        yield f"{kind} in {kernels}{'; ' if arches else ''}{arches}"
        yield from regression_lines(report, style)
        yield from unknown_lines(report, style)
        return
    shown = changes if style.rows is None else changes[: style.rows]
    blocks = any(effect.blocks for change in shown for effect in change.effects)
    columns = COLUMNS if blocks else COLUMNS[:4]
    totals = list(_totals(report)) if len(changes) > 1 else []
    figures = [_figures(change) for change in shown]
    wide = _Wide([metric for metrics in (*figures, totals) for metric in metrics])
    groups = [list(_rows(change, metrics, wide, report.names)) for change, metrics in zip(shown, figures, strict=True)]
    rows = [row for group in groups for row in group]
    last = list(_total_rows(totals, changes, wide)) if len(changes) > 1 else []
    rows += last
    cut: list[Row] = [(cells[: len(columns)], color) for cells, color in rows]

    def fit(room: int) -> list[str]:
        firsts = [
            named(change.kernel, report.names, room) if at == 0 else ""
            for change, group in zip(shown, groups, strict=True)
            for at in range(len(group))
        ]
        return [*firsts, *(cells[0] for cells, _ in last)]

    printed = list(table(columns, cut, style, left=_LEFT, spare=(LIMITED,), fit=fit))
    yield from printed[: len(printed) - len(last)]
    yield from fold(len(changes) - len(shown), style)
    yield from printed[len(printed) - len(last) :]
    yield ""
    states = Counter[str](change.state for change in changes)
    open_ones = {id(hole.kernel) for hole in report.holes}
    unknown = sum(id(change.kernel) in open_ones for change in report.unsettled)
    unchanged = len(report.build.kernels) - len(changes) + states["removed"] - unknown
    listed = [state for state in ("changed", "renamed", "added", "removed") if states[state] or state != "renamed"]
    yield (
        ", ".join(f"{states[state]:,} {state}" for state in listed)
        + f", {unchanged:,} unchanged"
        + (f", {unknown:,} unknown" if unknown else "")
    )
    yield from _growth(report)
    if states["added"] and states["added"] == len(report.build.kernels) and states["removed"]:
        yield "no kernel is in both builds; of different archs, --by arch puts them side by side"
    yield from regression_lines(report, style)
    yield from unknown_lines(report, style)


def _growth(report: Report) -> Iterator[str]:
    """By how much the machine code grew, and the families that it grew or shrank most by; nothing where a kernel's code
    is not known."""
    size = BY_NAME["code_bytes"].get
    assert size is not None
    families: Counter[str] = Counter()
    for change in report.changes:
        before, after = (0 if side is None else size(side) for side in (change.before, change.after))
        if before is None or after is None:
            return
        families[report.names.base(change.kernel.named_by)] += after - before
    if not (grown := sum(families.values())):
        return
    ranked = sorted(
        ((each, name) for name, each in families.items() if each), key=lambda pair: (-abs(pair[0]), pair[1])
    )
    listed = ", ".join(f"{name} {bytes_:+,} B" for bytes_, name in ranked[:_FAMILIES])
    more = f", {len(ranked) - _FAMILIES:,} more families" if len(ranked) > _FAMILIES else ""
    yield f"machine code {grown:+,} B: {listed}{more}"


class _Wide:
    """How wide numbers are, so that those of all rows stand under each other."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.before = max((len(_number(name, before)) for name, before, _ in metrics), default=0)
        self.after = max((len(_number(name, after)) for name, _, after in metrics), default=0)
        self.unit = max((len(figure(name).unit) for name, _, _ in metrics), default=0)

    def cell(self, metric: Metric) -> str:
        name, before, after = metric
        unit = f" {'' if _large(name) else figure(name).unit:<{self.unit}}" if self.unit else ""
        numbers = f"{_number(name, before):>{self.before}} → {_number(name, after):>{self.after}}{unit}"
        if before is None or after is None:
            return numbers
        sign = "" if after == before else "+" if after > before else "-"
        return f"{numbers} ({sign}{_number(name, abs(after - before))})"


def _number(name: str, value: int | None) -> str:
    if value is None:
        return "-"
    return size(value) if _large(name) else f"{value:,}"


def _large(name: str) -> bool:
    return name.startswith("footprint_bytes")


def _rows(change: Change, metrics: Sequence[Metric], wide: _Wide, names: Names) -> Iterator[Row]:
    kernel = change.kernel
    name = named(kernel, names)
    archs = dict.fromkeys(side.key.arch or "-" for side in (change.before, change.after) if side)
    lead = [name, " → ".join(archs)]
    if change.state in ("added", "removed"):
        spills = change.state == "added" and any(kernel.spills or ())
        yield [*lead, change.state, _brief(kernel), "", ""], RED if spills else ""
        return
    effects = [effect for effect in change.effects if effect.blocks]
    shown = [("renamed", _renaming(change, names), "")] if change.state == "renamed" else []
    shown += [(figure(metric[0]).label, wide.cell(metric), _color(metric)) for metric in metrics]
    shown += _remarks(change)
    for at in range(max(1, len(shown), len(effects))):
        label, text, color = shown[at] if at < len(shown) else ("", "", "")
        effect = effects[at] if at < len(effects) else None
        blocks = [_blocks(effect, named=len(effects) > 1), _limiters(effect)] if effect else ["", ""]
        if effect and effect.blocks and effect.blocks[1] < effect.blocks[0]:
            color = RED
        yield [*(lead if at == 0 else ("", "")), label, text, *blocks], color


def _remarks(change: Change) -> list[tuple[str, str, str]]:
    """(label, text, color) of what is no figure."""
    found = [("ptxas says", kind.replace("_", " "), YELLOW) for kind in change.appeared]
    found += [("no longer says", kind.replace("_", " "), "") for kind in change.vanished]
    if moved_to_shared(change) and not any(name == "shared_spills" for name, _, _ in change.metrics):
        found.append(("", "spills may be in shared memory now", YELLOW))
    return found


def _renaming(change: Change, names: Names) -> str:
    """``old → new``, and how alike they are; where only what is around the names differs, the old one in full."""
    assert change.before is not None
    old, new = names.of(change.before.named_by), names.of(change.kernel.named_by)
    full = change.before.name
    both = (
        f"{old} → {new}"
        if alone(change.before.named_by) != alone(change.kernel.named_by)
        else f"was {full if len(full) <= _WIDEST else full[:_WIDEST] + '…'}"
    )
    return f"{both} ({change.score:.0%} alike)"


def _figures(change: Change) -> list[Metric]:
    """What a person wants to see of a change."""
    shown = [metric for metric in change.metrics if metric[0].partition("[")[0] not in _OWN_COLUMN and _worth(metric)]
    stacks = [metric[1:] for metric in shown if metric[0] in ("stack_bytes", "cumulative_stack_bytes")]
    if len(stacks) > len(set(stacks)):  # nothing is called
        shown = [metric for metric in shown if metric[0] != "cumulative_stack_bytes"]
    quiet = [metric for metric in shown if metric[0] not in _COUNTS]
    return (quiet or shown) + [metric for metric in change.unknown if metric[0] in _NEEDED]


def _worth(metric: Metric) -> bool:
    name, before, after = metric
    return not _large(name) or max(before or 0, after or 0) >= WORTH_SHOWING_BYTES


def _color(metric: Metric) -> str:
    name, before, after = metric
    if before is None or after is None:
        return YELLOW
    if not figure(name).severe:
        return ""
    return RED if after > before else GREEN


def _brief(kernel: Kernel) -> str:
    usage = kernel.usage
    registers = f"{usage.registers} registers" if usage.registers is not None else "registers not said"
    return registers + (f", spills {sum(kernel.spills):,} B" if kernel.spills and any(kernel.spills) else "")


def _blocks(effect: Effect, named: bool) -> str:
    assert effect.blocks is not None
    before, after = effect.blocks
    device = f" {effect.device}" if named else ""
    return (f"{after}" if before == after else f"{before} → {after}") + device


def _limiters(effect: Effect) -> str:
    before, after = ("+".join(side).replace("_", " ") for side in effect.limiters)
    binding = after if before == after else f"{before} → {after}"
    dynamic = f", {effect.dynamic_shared_bytes:,} B" if effect.dynamic_shared_bytes else ""
    return f"{binding} ({effect.threads_per_block}{dynamic})"


def _totals(report: Report) -> Iterator[Metric]:
    """The sums of what changed, over all kernels: what the base reports, and what the changes make of it."""
    base: Counter[str] = Counter()
    delta: Counter[str] = Counter()
    for kernel in (report.base or Build()).kernels:
        for name, value in _sums(kernel):
            base[name] += value
    for change in report.changes:
        if change.before is not None and change.after is not None:
            for name, before, after in change.metrics:
                delta[name] += (after or 0) - (before or 0)
        else:
            for name, value in _sums(change.kernel):
                delta[name] += value if change.before is None else -value
    changing = {name for change in report.changes for name, _, _ in change.metrics}
    for name in _SUMMED:
        if name in changing or delta[name]:
            yield name, base[name], base[name] + delta[name]


def _sums(kernel: Kernel) -> Iterator[tuple[str, int]]:
    reported = figures(kernel)
    return ((name, value) for name in _SUMMED if (value := reported[name]) is not None)


def _total_rows(totals: Sequence[Metric], changes: Sequence[Change], wide: _Wide) -> Iterator[Row]:
    lead = "total"
    for name in (*_SUMMED, *_COUNTED):
        rose, fell = (
            sum(any(_is(metric, name) and way * _delta(metric) > 0 for metric in change.metrics) for change in changes)
            for way in (1, -1)
        )
        ways = (("↑", rose), ("↓", fell))
        moved = " ".join(f"{number:,}{way}" for way, number in ways if number)
        cell = next((wide.cell(metric) for metric in totals if metric[0] == name), "")
        if moved or cell:
            yield [lead, moved, figure(name).label, cell, "", ""], BOLD
            lead = ""


def _is(metric: Metric, name: str) -> bool:
    return metric[0].partition("[")[0] == name


def _delta(metric: Metric) -> int:
    return (metric[2] or 0) - (metric[1] or 0)
