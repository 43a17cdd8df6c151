"""Words that several reports use: what a build is, what a kernel and a figure are called, what a finding says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spillscan.arches import natural
from spillscan.model import Build, Finding, Kernel
from spillscan.names import display_name
from spillscan.output.safe import clip, printable
from spillscan.reports import Report

LONGEST_NAME, LONGEST_ARCH, LONGEST_MESSAGE = 120, 24, 600
"""Characters of a kernel's name, an arch and a finding's message in reports for people."""
MOST_ARCHES = 16
"""Archs that are listed; a real build has a dozen."""


def name_of(kernel: Kernel) -> str:
    """The kernel's short name, printable and never long."""
    return printable(display_name(kernel.key.symbol), LONGEST_NAME)


def label_of(kernel: Kernel) -> str:
    """``gemm<8> (sm_90a)``; with the object where several may have the kernel."""
    unit = f", {printable(kernel.key.unit, LONGEST_NAME)}" if kernel.key.unit else ""
    return f"{name_of(kernel)} ({printable(kernel.key.arch or 'arch unknown', LONGEST_ARCH)}{unit})"


def message_of(finding: Finding) -> str:
    """What the finding says, printable and never long."""
    return printable(finding.message, LONGEST_MESSAGE)


def doubts(report: Report) -> Iterator[str]:
    """What besides findings keeps the gate from passing, a sentence each, printable: it must not look green."""
    if not report.build.kernels:
        yield "the input names no kernel"
    if report.undecided:
        kernel, reason = report.undecided[0]
        more = f" ({count(len(report.undecided) - 1, 'kernel')} more)" if len(report.undecided) > 1 else ""
        yield printable(f"{label_of(kernel)} cannot be judged: {clip(reason, LONGEST_MESSAGE)}", LONGEST_MESSAGE) + more
    grave = [issue for issue in report.build.issues if issue.severity == "error"]
    if grave:
        more = f" ({len(grave) - 1:,} more)" if len(grave) > 1 else ""
        yield printable(grave[0].message, LONGEST_MESSAGE) + more


def summary(build: Build) -> str:
    """``1,055 kernels (90 spill: 5,204 B stores, 5,300 B loads), 12 device functions; sm_80, sm_90``."""
    entries = [kernel for kernel in build.kernels if kernel.role != "function"]
    functions = [kernel for kernel in build.kernels if kernel.role == "function"]
    text = count(len(entries), "kernel") + _spilling(entries)
    if functions:
        text += f", {count(len(functions), 'device function')}{_spilling(functions)}"
    arches = arches_of(build)
    text += f"; {arches}" if arches else ""
    ambiguous = sum(kernel.confidence == "ambiguous" for kernel in build.kernels)
    open_ends = sum(kernel.final is False and kernel.role == "entry" for kernel in build.kernels)
    text += f"\n? {ambiguous:,} ambiguous: see reasons in -f json" if ambiguous else ""
    if open_ends:
        text += f"\n* relocatable code: registers of {count(open_ends, 'kernel')} are final only after the link"
    return text


def arches_of(build: Build) -> str:
    """``sm_80, sm_90``; empty where the input names none."""
    named = {kernel.key.arch for kernel in build.kernels if kernel.key.arch}
    arches = sorted({printable(arch, LONGEST_ARCH) for arch in named}, key=natural)
    more = f" … {len(arches) - MOST_ARCHES:,} more" if len(arches) > MOST_ARCHES else ""
    return ", ".join(arches[:MOST_ARCHES]) + more


def _spilling(kernels: Sequence[Kernel]) -> str:
    told = [kernel.spills for kernel in kernels]
    spilling = [spills for spills in told if spills and sum(spills)]
    unknown = told.count(None)
    said = f"{unknown:,} do not say" if unknown else ""
    if not spilling:
        return f" ({said})" if unknown else (" (none spills)" if kernels else "")
    stores, loads = (sum(figures) for figures in zip(*spilling, strict=True))
    verb = "spills" if len(spilling) == 1 else "spill"
    return f" ({len(spilling):,} {verb}: {stores:,} B stores, {loads:,} B loads{', ' + said if said else ''})"


def count(number: int, noun: str) -> str:
    """``1 kernel``, ``1,055 kernels``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
