"""From what was gathered of a kernel to its record, with what only the whole input tells."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spillscan.logs.drafts import Draft, Section
from spillscan.logs.steps import Step
from spillscan.model import Kernel, KernelKey, Origin


@dataclass(frozen=True, slots=True)
class Context:
    """What the whole input tells about each of its kernels."""

    input: str
    """What the user calls it."""
    interleaved: bool
    """Several compilers wrote at once: no compile time is surely a kernel's."""
    relocatable: bool
    """It shows relocatable code."""
    units_in_doubt: bool
    """Steps overlap whose output is not buffered: their objects are nobody's for sure."""
    arch_in_doubt: bool
    """It is interleaved and holds several archs: a device function's is not told."""
    namesakes: frozenset[str]
    """Symbols of several archs, in interleaved output: an advisory that names one does not say which."""


def record(draft: Draft, context: Context) -> Kernel:
    """The draft as a record."""
    reasons, arch = draft.reasons, draft.arch
    if draft.role == "function":
        arch = None if context.arch_in_doubt else draft.section.arch
        if context.arch_in_doubt:
            reasons += ("interleaved output does not tell for which arch it was compiled",)
    return Kernel(
        key=KernelKey(symbol=draft.symbol, arch=arch, unit=draft.step.unit),
        role=draft.role,
        usage=draft.figures,
        confidence="ambiguous" if reasons else "certain",
        reasons=reasons,
        advisories=draft.advisories,
        origins=(Origin(input=context.input, line=draft.line),),
        compile_ms=draft.compile_ms,
        source=draft.step.source,
    )


def finished(kernel: Kernel, section: Section, step: Step, context: Context) -> Kernel:
    """The record with what the whole input tells; itself where that changes nothing."""
    changes: dict[str, object] = {}
    if step.relocatable or (step.relocatable is None and context.relocatable):
        changes["final"] = False
    if context.units_in_doubt and step.unit and not step.buffered:
        changes["key"] = replace(kernel.key, unit="")
        changes["source"] = ""
    if context.interleaved and kernel.compile_ms is not None:
        changes["compile_ms"] = None
    if section.notes and kernel.role == "entry":
        changes["advisories"] = kernel.advisories + tuple(note.advisory for note, _ in section.notes)
    if kernel.advisories and kernel.key.symbol in context.namesakes:
        changes["advisories"] = ()
    return replace(kernel, **changes) if changes else kernel  # type: ignore[arg-type]
