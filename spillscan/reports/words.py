"""Wording shared by reports: texts for builds, kernels, metrics and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from posixpath import basename
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.judging.places import Place, costliest, place_in_input, place_of, source_place
from spillscan.model import SEVERITIES, Build, Change, Finding, Issue, Kernel, Severity
from spillscan.model.symbols import natural
from spillscan.naming import Names
from spillscan.naming.libraries import library_of
from spillscan.output.nouns import between, count, listed, size
from spillscan.output.safe import printable
from spillscan.reports.groups import none_spills, shared_label
from spillscan.reports.report import NextStep, Report

LONGEST_NAME, LONGEST_ARCH, LONGEST_MESSAGE = 120, 24, 600
"""Characters of a kernel's name, an arch and a finding's message in reports for people."""
MOST_FAMILIES = 6
"""Families named for kernels with the same gap."""
MOST_ARCHES = 16
"""Archs listed; real builds have about a dozen."""
PLACED_BY_NAME = " (kernel definition, found by name)"
"""Mark of a place that was found by the kernel's name in its source."""
UNCOUNTED = "no recorded compiler calls: a missing report would go unnoticed (`spillscan run` records them)"
"""Note for a build without units."""


def named(kernel: Kernel, names: Names) -> str:
    """The kernel's name, with its role unless it is an entry."""
    role = {"entry": "", "function": " (function)", "unknown": " (?)"}[kernel.role]
    return names.of(kernel.named_by) + role


def cell(kernel: Kernel, names: Names, *, under: bool = False) -> str:
    """The kernel's name in a table; only its arguments if it is ``under`` the title of its family."""
    return f"  {names.arguments(kernel.named_by)}" if under else named(kernel, names)


def family_of(kernel: Kernel, names: Names) -> str:
    """Printable name of the kernel's family, cut to a limit."""
    return printable(names.base(kernel.named_by), LONGEST_NAME) or "(no name)"


def label_of(kernel: Kernel, names: Names) -> str:
    """``gemm<8> (sm_90a)``, with the object and the calling kernel if there are any."""
    parts = [printable(kernel.key.arch or "arch unknown", LONGEST_ARCH), copy_of(kernel, names, kernel.key.unit)]
    return f"{names.of(kernel.named_by)} ({', '.join(filter(None, parts))})"


def copy_number(kernel: Kernel) -> str:
    """``#2``: number among several copies in one object; empty for the only one."""
    return "".join(kernel.key.unit.partition("#")[1:])


def copy_of(kernel: Kernel, names: Names, unit: str = "") -> str:
    """``#2, in gemm<8>``: number among several copies in one object, and the calling kernel; empty if there is neither.

    ``unit`` replaces the number.
    """
    copy = printable(unit or copy_number(kernel), LONGEST_NAME)
    return ", ".join(filter(None, (copy, f"in {names.of(kernel.caller)}" if kernel.caller else "")))


def spills_of(kernel: Kernel, missing: str) -> tuple[str, str]:
    """Spill stores and loads of the kernel itself in bytes: exact, else bounds from the code, else ``missing``."""
    bounds = kernel.own_spill_bounds
    if bounds is None:
        return missing, missing
    stores, loads = (between(least, most) for least, most in zip(*bounds, strict=True))
    return stores, loads


def message_of(finding: Finding) -> str:
    """Printable message of the finding, cut to a limit."""
    return printable(finding.message, LONGEST_MESSAGE)


class Fields(NamedTuple):
    """Fields of a finding or gap that all machine-readable formats share."""

    rule: str
    """Rule, or kind of gap."""
    severity: Severity | None
    """``None`` for a gap."""
    kernel: str
    """The kernel as :func:`label_of` names it; empty for a gap."""
    detail: str
    """Message, with the source lines if several share the finding."""
    place: Place
    """Place in the source, else in the input."""
    fingerprint: str

    @property
    def text(self) -> str:
        """Sentence about the kernel."""
        return f"{self.kernel} {self.detail}".lstrip()


def fields_of(finding: Finding, report: Report) -> Fields:
    """Fields of ``finding``, with a mark if its place was found by the kernel's name."""
    place, lines = place_of(finding, report.tree), lines_of(finding, report)
    detail = message_of(finding) + (f"; lines by cost: {lines}" if lines else PLACED_BY_NAME if place.by_name else "")
    return Fields(
        finding.rule, finding.severity, label_of(finding.kernel, report.names), detail, place, finding.fingerprint
    )


def lines_of(finding: Finding, report: Report) -> str:
    """``gemm.cu:50 (inlined: math.cuh:9) 62%, gemm.cu:58 20%``; empty without lines."""
    from spillscan.reading.machine.spillmap import TOP, share_text

    places = [replace(place, path=basename(place.path)) for place in costliest(finding, report.tree)[:TOP]]
    return printable(", ".join(f"{place.text} {share_text(place.share or 0)}" for place in places), LONGEST_MESSAGE)


def inputs_of(build: Build) -> str:
    """``build.log``, ``a.log and 3 more``: inputs of a build with kernels; empty if there are none."""
    names = list(dict.fromkeys(kernel.origins[0].input for kernel in build.kernels if kernel.origins))
    return listed(names[:1], len(names) - 1)


def families_of(kernels: Iterable[Kernel], names: Names) -> str:
    """``gemm: 12, softmax: 4 and 7 more``: families of the kernels, the largest first; of one, its name."""
    numbers = Counter(family_of(kernel, names) for kernel in kernels)
    if len(numbers) == 1:
        return next(iter(numbers))
    named = [f"{family}: {number:,}" if number > 1 else family for family, number in numbers.most_common(MOST_FAMILIES)]
    return listed(named, len(numbers) - len(named))


def summary(build: Build) -> str:
    """``1,055 kernels (sm_80, sm_90), 90 spilling: 5,204 B stores, 5,300 B loads``, and their uncertainties."""
    entries = [kernel for kernel in build.kernels if kernel.role != "function"]
    functions = [kernel for kernel in build.kernels if kernel.role == "function" and not kernel.is_helper]
    helpers = sum(kernel.is_helper for kernel in build.kernels)
    lines = [f"{count(len(entries), 'kernel')}{_in_archs(build)}{_spilling(entries)}"]
    if functions:
        lines.append(f"{count(len(functions), 'device function')}{_spilling(functions)}")
    if helpers:
        lines.append(f"{count(helpers, 'ptxas helper')}")
    ambiguous = sum(kernel.confidence == "ambiguous" for kernel in build.kernels)
    open_ends = sum(kernel.final is False and kernel.role == "entry" for kernel in build.kernels)
    if ambiguous:
        lines.append(f"? {ambiguous:,} ambiguous: see reasons in -f json")
    if open_ends:
        lines.append(f"* relocatable code: registers of {count(open_ends, 'kernel')} are final only after the link")
    return "\n".join(lines)


def checked(build: Build) -> str:
    """``12 kernels, 3 device functions (sm_80, sm_90a)``: kernels that a gate checked."""
    functions = sum(kernel.role == "function" and not kernel.is_helper for kernel in build.kernels)
    kernels = count(sum(kernel.role != "function" for kernel in build.kernels), "kernel")
    return kernels + (f", {count(functions, 'device function')}" if functions else "") + _in_archs(build)


def _in_archs(build: Build) -> str:
    arches = arches_of(build)
    return f" ({arches})" if arches else ""


def arches_of(build: Build) -> str:
    """``sm_80, sm_90``; empty if the input names none."""
    named = {kernel.key.arch for kernel in build.kernels if kernel.key.arch}
    arches = sorted({printable(arch, LONGEST_ARCH) for arch in named}, key=natural)
    return listed(arches[:MOST_ARCHES], len(arches) - MOST_ARCHES)


def _spilling(kernels: Sequence[Kernel]) -> str:
    reported = [kernel.spills for kernel in kernels]
    spilling = [spills for spills in reported if spills and sum(spills)]
    unknown = f", {reported.count(None):,} unknown" if None in reported else ""
    if not spilling:
        return f", {none_spills(kernels)}{unknown}" if kernels else ""
    stores, loads = (sum(amounts) for amounts in zip(*spilling, strict=True))
    return f", {len(spilling):,} spilling: {size(stores)} stores, {size(loads)} loads{unknown}"


def alike(findings: Iterable[Finding], report: Report) -> list[list[Finding]]:
    """Findings of one group (``report.by``, by default the family) and rule together, in their order, worst first."""
    families: dict[object, list[Finding]] = {}
    for finding in findings:
        label = shared_label(finding.kernel, report.by or "family", report.names)
        key = finding.rule, finding.severity, finding.baseline_state, label
        families.setdefault(key, []).append(finding)
    return list(families.values())


def place_text(finding: Finding, report: Report) -> str:
    """Line of the source, else of the log or file; in a package its library, after the name of one of several."""
    if source := source_place(finding, report.tree):
        return source.text
    place, library = str(place_in_input(finding.origin, report.tree)), library_of(finding.kernel, str)
    inside = finding.origin is not None and library not in ("", finding.origin.input)
    return ":".join([basename(place)] * (report.inputs > 1) + [printable(library)]) if inside else place


def baseline_lines(report: Report) -> Iterator[str]:
    """``baseline: 1 new, 40 known``, without states that do not occur; ``suppressed by `accept`: 2 findings``."""
    if report.baseline is not None:
        counts = (each for each in report.baseline.counts().items() if each[1] and each[0] != "suppressed")
        states = ", ".join(f"{number:,} {state}" for state, number in counts)
        yield f"baseline: {states or '0 new'}"
    if suppressed := sum(each.baseline_state == "suppressed" for each in report.findings):
        yield f"suppressed by `accept`: {count(suppressed, 'finding')}"


def not_checked_lines(report: Report) -> Iterator[str]:
    """``not checked: …``, one line each."""
    yield from (f"not checked: {each}" for each in report.details.not_checked)


def step_facts(step: NextStep) -> Iterator[tuple[str, str]]:
    """(heading, text) of a family's next step; a command is never cut, so that it can be pasted."""
    for heading, text in step.lines:
        yield heading, printable(text, None if heading == "next" else LONGEST_MESSAGE)


def step_markdown(step: NextStep, but: str = "") -> Iterator[str]:
    """Next step in Markdown, with the command as code and without the text ``but``."""
    from spillscan.output import markdown  # not for text

    for heading, text in step_facts(step):
        if text != but:
            yield f"{heading}: {markdown.code(text, len(text)) if heading == 'next' else markdown.words(text)}"


def counted(report: Report) -> list[Finding]:
    """Open findings that a diff lists: notes only if they can fail the check, since tables show their values."""
    return [each for each in report.open_findings if each.severity != "note" or report.fail_on == "note"]


def bounds(change: Change) -> str:
    """``128 threads → none``: changed launch bounds."""
    assert change.bounds is not None
    old, new = ("none" if each is None else f"{each:,} threads" for each in change.bounds)
    return f"{old} → {new}"


def by_severity(items: Iterable[Finding | Issue]) -> list[tuple[Severity, int]]:
    """Number of findings or issues of each severity that occurs, the worst first."""
    numbers = Counter(each.severity for each in items)
    return [(severity, numbers[severity]) for severity in reversed(SEVERITIES) if numbers[severity]]


def severities(findings: Sequence[Finding], added: Collection[int] = ()) -> str:
    """``2 errors, 1 warning``; with the ids of added kernels ``2 errors (1 in added kernels)``."""
    new = dict(by_severity([each for each in findings if id(each.kernel) in added and each.severity != "note"]))
    parts = ((count(number, severity), new.get(severity)) for severity, number in by_severity(findings))
    return ", ".join(f"{text} ({number:,} in added kernels)" if number else text for text, number in parts)
