"""From what was gathered of a kernel to its record, with what the whole input shows."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Origin
from spillscan.reading.logs.issue_log import Doubts
from spillscan.reading.logs.pending import PendingKernel, Section
from spillscan.reading.logs.steps import Step


class Context(Struct, frozen=True):
    """What the whole input shows about each of its kernels."""

    input: str
    """What the user calls it."""
    interleaved: bool
    """Several compilers wrote at once: neither compile times nor units are sure."""
    relocatable: bool
    """It shows that device code is linked, and code that may be what is."""
    units_in_doubt: bool
    """Steps overlap whose output is not buffered: their objects are in doubt."""
    arch_in_doubt: bool
    """It is interleaved and holds several archs: a device function's is not known."""
    doubts: Doubts
    """Lines around which nothing is certain."""
    namesakes: frozenset[str]
    """Symbols of several archs, in interleaved output: an advisory that names one does not say which."""
    linked: frozenset[str]
    """Symbols that the linker reports, in interleaved output: their code is relocatable."""


def record(pending: PendingKernel, context: Context) -> Kernel:
    """The record of ``pending``."""
    reasons, arch = pending.reasons, pending.arch
    if pending.role == "function":
        arch = None if context.arch_in_doubt else pending.section.arch
        if context.arch_in_doubt:
            reasons += ("interleaved output does not show for which arch it was compiled",)
    return Kernel(
        key=KernelKey(symbol=pending.symbol, arch=arch, unit=pending.step.unit),
        role=pending.role,
        usage=pending.figures,
        confidence="ambiguous" if reasons else "certain",
        reasons=reasons,
        advisories=pending.advisories,
        origins=(Origin(input=context.input, line=pending.line),),
        compile_ms=pending.compile_ms,
        source=pending.step.source,
    )


def finished(kernel: Kernel, section: Section, step: Step, context: Context) -> Kernel:
    """The record with what the whole input shows; itself where that changes nothing."""
    changes: dict[str, object] = {}
    whole = section.linked and not context.interleaved
    relocatable = kernel.key.symbol in context.linked or (context.relocatable and not whole)
    if step.relocatable or (step.relocatable is None and relocatable):
        changes["final"] = False
    if step.unit and (context.interleaved or (context.units_in_doubt and not step.buffered)):
        changes["key"] = replace(kernel.key, unit="")
        changes["source"] = ""
    if context.interleaved and kernel.compile_ms is not None:
        changes["compile_ms"] = None
    if section.notes and kernel.role == "entry":
        changes["advisories"] = kernel.advisories + tuple(note.advisory for note, _ in section.notes)
    if kernel.advisories and kernel.key.symbol in context.namesakes:
        changes["advisories"] = ()
    if context.doubts and (kernel.origins[0].line or 0) in context.doubts:
        changes["confidence"] = "ambiguous"
        changes["reasons"] = (*kernel.reasons, "lines near it are torn or missing")
        changes["compile_ms"] = None
    return replace(kernel, **changes) if changes else kernel
