"""Truth table of what the whole input makes of one record: one fact a row."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict, replace

from spillscan.model import Advisory, Kernel, KernelKey, Origin, Usage
from spillscan.reading.logs.finish import finished
from spillscan.reading.logs.issue_log import NEIGHBOURHOOD_LINES
from spillscan.reading.logs.kernels import Report, Section
from spillscan.reading.logs.messages import Note
from spillscan.reading.logs.steps import Step

LINE = 100
NEAR, FAR = LINE - NEIGHBOURHOOD_LINES, LINE - NEIGHBOURHOOD_LINES - 1
ADVISORY = Advisory(kind="performance_loss", text="text", severity="warning")
REPORT = Report("a.log")
KERNEL = Kernel(
    key=KernelKey(symbol="k", arch="sm_90", unit="a.o"),
    role="entry",
    usage=Usage(),
    origins=(Origin(input="a.log", line=LINE),),
    compile_ms=5.0,
    source="a.cu",
)
STEP = Step(unit="a.o", source="a.cu")
NOTE = Section(notes=[(Note(ADVISORY), 1)])
DOUBTED = {
    "confidence": "ambiguous",
    "reasons": ("lines near it are torn or missing",),
    "compile_ms": None,
}
NO_UNIT = {"key": KernelKey(symbol="k", arch="sm_90", unit=""), "source": ""}


@pytest.mark.parametrize(
    ("kernel", "section", "step", "report", "changes", "why"),
    [
        ({}, Section(), STEP, {}, {}, "nothing is known besides"),
        ({}, Section(), STEP, {"interleaved": True}, NO_UNIT | {"compile_ms": None}, "several wrote at once"),
        ({}, Section(), Step(), {"interleaved": True}, {"compile_ms": None}, "no step named its unit"),
        ({"compile_ms": None}, Section(), Step(), {"interleaved": True}, {}, "and no time"),
        ({}, Section(), STEP, {"units_in_doubt": True}, NO_UNIT, "steps overlap"),
        ({}, Section(), replace(STEP, buffered=True), {"units_in_doubt": True}, {}, "but its output is one piece"),
        ({}, Section(), replace(STEP, buffered=True), {}, {}, "its output is one piece"),
        ({}, Section(), STEP, {"device_link": True}, {"final": False}, "device code is linked"),
        ({}, Section(linked=True), STEP, {"device_link": True}, {}, "its callees were known: it is whole"),
        (
            {},
            Section(linked=True),
            Step(),
            {"device_link": True, "interleaved": True},
            {"final": False, "compile_ms": None},
            "whose section it is, is not known",
        ),
        ({}, Section(linked=True), STEP, {"linked": frozenset("k")}, {"final": False}, "the linker names it"),
        ({}, Section(), STEP, {"linked": frozenset("l")}, {}, "the linker names another"),
        ({}, Section(), replace(STEP, relocatable=True), {}, {"final": False}, "its command says so"),
        ({}, Section(), replace(STEP, relocatable=False), {"device_link": True}, {}, "its command says that it is not"),
        ({}, NOTE, STEP, {}, {"advisories": (ADVISORY,)}, "a note of all kernels of the section"),
        ({"role": "function"}, NOTE, STEP, {}, {}, "which is of no device function"),
        ({}, Section(), STEP, {"advisories": {LINE: (ADVISORY,)}}, {"advisories": (ADVISORY,)}, "a note names it"),
        ({}, NOTE, STEP, {"advisories": {LINE: (ADVISORY,)}}, {"advisories": (ADVISORY, ADVISORY)}, "two notes"),
        ({}, Section(), STEP, {"advisories": {LINE - 1: (ADVISORY,)}}, {}, "a note names another"),
        ({}, Section(), STEP, {"doubts": [NEAR]}, DOUBTED, "damage near it"),
        ({}, Section(), STEP, {"doubts": [FAR]}, {}, "damage far from it"),
        (
            {"reasons": ("before",)},
            Section(),
            STEP,
            {"doubts": [LINE]},
            DOUBTED | {"reasons": ("before", *DOUBTED["reasons"])},  # type: ignore[misc]
            "beside what was doubtful before",
        ),
    ],
)
def test_facts_about_the_whole_input(
    kernel: dict[str, Any], section: Section, step: Step, report: dict[str, Any], changes: dict[str, Any], why: str
) -> None:
    before = replace(KERNEL, **kernel)
    after = finished(before, section, step, replace(REPORT, **report))
    assert asdict(after) == asdict(before) | changes, why
    assert changes or after is before
