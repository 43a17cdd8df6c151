"""A truth table, made by hand: what becomes of a kernel of a log where dumps, listings and binaries have it, too.

A row is (kernels of the log, what the others have, kernels, issues). A kernel is (symbol, arch, unit, role, registers,
stack, spills, final, instructions of its code, evidence for its spills); an issue is (kind, reason), without places.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan.model import LOST_SETTING, Advisory, Issue, Kernel, KernelKey, Origin, Usage
from spillscan.model.code import SETS_REGISTERS, FunctionUsage, SassFunction, SassStats
from spillscan.model.gaps import KINDS
from spillscan.model.local import LocalAccess, LocalTraffic, Traffic
from spillscan.reading.join.code import _are_copies, attach_code, contradiction

LOG = Origin(input="build.log", line=1, format="ptxas")
PLACES = re.compile(r" \([^()]*:\d+, [^()]*\)| …")


def logged(registers: int | None = 40, spills: Any = (4, 4), **other: Any) -> Kernel:
    """Kernel as ptxas reports it."""
    key = KernelKey(symbol=other.pop("symbol", "k"), arch=other.pop("arch", "sm_80"), unit=other.pop("unit", ""))
    stores, loads = spills or (None, None)
    usage = Usage(registers=registers, stack_bytes=8, spill_store_bytes=stores, spill_load_bytes=loads)
    return Kernel(key=key, role=other.pop("role", "entry"), usage=usage, **{"origins": (LOG,), **other})


def access(address: int, *, store: bool, kind: Any = "spill", slot: int = 4) -> LocalAccess:
    return LocalAccess(
        address=address, line=1, store=store, bytes=4, form="stack", slot=slot, last_use=not store, predicated=False,
        kind=kind, depth=0, part=0,
    )  # fmt: skip


SPILLED = (access(16, store=True), access(32, store=False))
"""One store and one load of four bytes."""


def dumped(registers: int | None = None, size: int = 8, **other: Any) -> SassFunction:
    """Function as a disassembly shows it."""
    accesses = other.pop("accesses", SPILLED)
    evidence, frame = other.pop("evidence", "annotation"), other.pop("frame", None)
    local = LocalTraffic(accesses=accesses, evidence=evidence, flow="complete", frame=frame)
    place = other.pop("place", "dump.sass")
    stats = SassStats(
        instructions=size, code_bytes=16 * size, opcodes=(("MOV", size),), local=local, registers=registers,
        origin=Origin(input=place, line=5, format=other.pop("format", "sass")), digest=other.pop("digest", None),
    )  # fmt: skip
    named = {"symbol": "k", "arch": "sm_80", "role": "entry", "member": 0, **other}
    return SassFunction(stats=stats, **named)


def built(registers: int = 40, stack: int = 8, **other: Any) -> SassFunction:
    """Function as a binary contains it."""
    usage = Usage(registers=registers, stack_bytes=stack, shared_bytes=256)
    return dumped(usage=usage, **{"place": "a.o", "format": "binary", **other})


def listed(registers: int = 40, stack: int | None = 8, **other: Any) -> FunctionUsage:
    """Function as a resource listing shows it."""
    return FunctionUsage(
        symbol=other.get("symbol", "k"), arch=other.get("arch", "sm_80"), identifier="", dynamic_stack=stack is None,
        usage=Usage(registers=registers, stack_bytes=stack), origin=Origin(input="usage.txt", line=2, format="usage"),
    )  # fmt: skip


def kernel(registers: int | None = 40, spills: Any = (4, 4), code: int | None = 8, **other: Any) -> tuple[Any, ...]:
    """One that comes of it."""
    return (
        other.get("symbol", "k"),
        other.get("arch", "sm_80"),
        other.get("unit", ""),
        other.get("role", "entry"),
        registers,
        other.get("stack", 8),
        spills,
        other.get("final"),
        code,
        other.get("evidence", "annotation" if code else None),
    )


def said(each: Kernel) -> tuple[Any, ...]:
    key, usage, sass = each.key, each.usage, each.sass
    code = (None, None) if sass is None else (sass.instructions, sass.local.evidence)
    figures = (usage.registers, usage.stack_bytes, usage.spills, each.final)
    return (key.symbol, key.arch, key.unit, each.role, *figures, *code)


def reason(each: Issue) -> tuple[str, str]:
    return each.code, PLACES.sub("", each.message)


TABLE: dict[str, tuple[list[Kernel], list[Any], list[tuple[Any, ...]], list[tuple[str, str]]]] = {
    "a log alone": ([logged()], [], [kernel(code=None)], []),
    "a dump alone: figures that it does not have stay unknown": (
        [],
        [dumped()],
        [kernel(None, None, stack=None)],
        [],
    ),
    "a dump that says its registers": ([], [dumped(40)], [kernel(40, None, stack=None)], []),
    "a binary alone": ([], [built()], [kernel(40, None)], []),
    "a listing alone: whether it is a kernel is not known": (
        [],
        [listed()],
        [kernel(40, None, None, role="unknown")],
        [],
    ),
    "listing and dump are one": ([], [listed(), dumped()], [kernel(40, None)], []),
    "the same symbol in two members of a dump is two kernels": (
        [],
        [dumped(size=8), dumped(size=9)],
        [kernel(None, None, stack=None), kernel(None, None, 9, stack=None, unit="#1")],
        [],
    ),
    "a program's copy of an object's code is not counted again": (
        [],
        [built(digest="d"), built(digest="d", place="app")],
        [kernel(40, None)],
        [],
    ),
    "nor an archive's, nor a program's of an archive": (
        [],
        [
            *(built(digest="d", place=each) for each in ("app", "lib.a", "a.o", "b.a")),
            *(built(digest="d", place=each, symbol="l") for each in ("lib.so", "lib.a", "b.lib")),
        ],
        [kernel(40, None), kernel(40, None, symbol="l"), kernel(40, None, symbol="l", unit="#1")],
        [],
    ),
    "nor where the log has another kernel": (
        [logged(symbol="other")],
        [built(digest="d"), built(digest="d", place="app")],
        [kernel(symbol="other", code=None), kernel(40, None)],
        [
            ("not-in-dump", "other: in the build log, but not in the machine code for sm_80"),
            ("not-in-log", "1 function of a.o is in no build log: k"),
        ],
    ),
    "other code in a program is another kernel": (
        [],
        [built(digest="d"), built(digest="e", place="app")],
        [kernel(40, None), kernel(40, None, unit="#1")],
        [],
    ),
    "equal code in two objects, or in two programs, is two kernels": (
        [],
        [
            built(digest="d", place=each, symbol=symbol)
            for symbol, *places in (("k", "a.o", "b.o"), ("l", "app", "lib.so"))
            for each in places
        ],
        [
            kernel(40, None),
            kernel(40, None, unit="#1"),
            kernel(40, None, symbol="l"),
            kernel(40, None, symbol="l", unit="#1"),
        ],
        [],
    ),
    "code without a digest is not known to be a copy": (
        [],
        [built(digest=None), built(digest=None, place="app")],
        [kernel(40, None), kernel(40, None, unit="#1")],
        [],
    ),
    "log and dump agree": ([logged()], [dumped(40)], [kernel()], []),
    "log and dump differ in spills: both stay": (
        [logged(spills=(8, 4))],
        [dumped(40)],
        [kernel(spills=(8, 4))],
        [
            (
                "spill-mismatch",
                "k: the log counts 8 B spill stores and 4 B spill loads, the machine code has 4 and 4 (-4, +0)",
            )
        ],
    ),
    "what callees spill is not the kernel's": (
        [logged(spills=(0, 4))],
        [dumped(40, accesses=(access(16, store=True, kind="unknown"), SPILLED[1], replace(SPILLED[0], part=1)))],
        [kernel(spills=(0, 4))],
        [],
    ),
    "device functions of two objects are two": (
        [],
        [built(digest=each, place=each, role="function") for each in ("a.o", "b.o")],
        [kernel(spills=None, role="function"), kernel(spills=None, role="function", unit="#1")],
        [],
    ),
    "what went through c++filt is joined by its name": (
        [logged(symbol="k(float *, int)"), logged(symbol="_Z1lPf"), logged(symbol="s(float*)")],
        [dumped(symbol=symbol) for symbol in ("_Z1kPfi", "l(float*)", "_Z1sPf", "_ZL1sPf")],
        [
            *(kernel(symbol="_Z1kPfi"), kernel(symbol="_Z1lPf"), kernel(symbol="s(float*)", code=None)),
            *(kernel(None, None, symbol=symbol, stack=None) for symbol in ("_Z1sPf", "_ZL1sPf")),
        ],
        [("not-in-dump", "s: demangled in the build log; pass the log without c++filt")],
    ),
    "doubtful accesses leave bounds": (
        [logged(spills=(16, 4))],
        [dumped(40, accesses=(*SPILLED, access(48, store=True, kind="unknown")), evidence="last-use")],
        [kernel(spills=(16, 4), evidence="last-use")],
        [
            (
                "spill-mismatch",
                "k: the log counts 16 B spill stores and 4 B spill loads, the machine code has 4 to 8 and 4",
            )
        ],
    ),
    "log and dump differ in registers: the log's stay": (
        [logged()],
        [dumped(41)],
        [kernel()],
        [("registers-mismatch", "k: the log says 40 registers, the disassembly 41")],
    ),
    "an unsure log contradicts nothing": (
        [logged(spills=(8, 4), confidence="ambiguous", reasons=("torn",))],
        [dumped()],
        [kernel(spills=(8, 4))],
        [],
    ),
    "the last-use rule and the log differ": (
        [logged(spills=(12, 4))],
        [dumped(evidence="last-use")],
        [kernel(spills=(12, 4), evidence="last-use")],
        [
            (
                "spill-mismatch",
                "k: the log counts 12 B spill stores and 4 B spill loads, the machine code has 4 and 4 (-8, +0)",
            )
        ],
    ),
    "in the log, but in no dump of its arch": (
        [logged(), logged(symbol="l")],
        [dumped()],
        [kernel(), kernel(symbol="l", code=None)],
        [("not-in-dump", "l: in the build log, but not in the machine code for sm_80")],
    ),
    "of an arch that no dump has, nothing is missing": (
        [logged(), logged(arch="sm_90")],
        [dumped()],
        [kernel(), kernel(arch="sm_90", code=None)],
        [],
    ),
    "in the dump, but in no log: a kernel of its own": (
        [logged()],
        [dumped(), dumped(symbol="l")],
        [kernel(), kernel(None, None, symbol="l", stack=None)],
        [("not-in-log", "1 function of dump.sass is in no build log: l")],
    ),
    "what ptxas brings along is not missed in the log": (
        [logged()],
        [dumped(), dumped(symbol="__internal_0_$__cuda_sm20_div", role="function")],
        [kernel(), kernel(None, None, symbol="__internal_0_$__cuda_sm20_div", role="function", stack=None)],
        [],
    ),
    "a dump without an arch fits any": ([logged()], [dumped(arch=None)], [kernel()], []),
    "several of one symbol: that of the unit": (
        [logged(unit="sub/a.cu.o")],
        [dumped(identifier="b.cu", size=9), dumped(identifier="a.cu")],
        [kernel(unit="sub/a.cu.o"), kernel(None, None, 9, unit="b.cu", stack=None)],
        [("not-in-log", "1 function of dump.sass is in no build log: k")],
    ),
    "several of one symbol: that with the log's registers": (
        [logged()],
        [built(41, size=9), built()],
        [kernel()],
        [],
    ),
    "several of one symbol, but the log says nothing of linked code: none": (
        [logged(final=False)],
        [built(41, size=9), built()],
        [kernel(final=False, code=None)],
        [("ambiguous-sass", "k: 2 functions have this symbol and arch; none is used: a.o:5, a.o:5")],
    ),
    "several of one symbol: that with the log's spills": (
        [logged(spills=(0, 0))],
        [dumped(), dumped(size=9, accesses=(), evidence="none")],
        [kernel(spills=(0, 0), code=9, evidence="none")],
        [],
    ),
    "several of one symbol, equal: any": ([logged()], [dumped(), dumped(place="lib.so")], [kernel()], []),
    "several of one symbol, which nothing tells apart: none": (
        [logged()],
        [dumped(), dumped(size=9)],
        [kernel(code=None)],
        [("ambiguous-sass", "k: 2 functions have this symbol and arch; none is used: dump.sass:5, dump.sass:5")],
    ),
    "copies of a device function in each kernel: the log has one report of all": (
        [logged(role="function")],
        [dumped(role="function", caller="a"), dumped(role="function", caller="b", size=9)],
        [kernel(role="function", code=None)],
        [],
    ),
    "a unit that is an object, though another has the symbol too": (
        [logged(unit="a.o")],
        [built(place="b.o", size=9), built(place="a.o")],
        [kernel(unit="a.o"), kernel(40, None, 9)],
        [("not-in-log", "1 function of b.o is in no build log: k")],
    ),
    "a binary fills what the log does not say": ([logged(None)], [built()], [kernel()], []),
    "log and binary differ in registers: the log's stay; stacks are counted in several ways": (
        [logged()],
        [built(41, 16)],
        [kernel()],
        [("registers-mismatch", "k: the log says 40 registers, the binary 41")],
    ),
    "log and binary differ in shared memory": (
        [replace(logged(), usage=replace(logged().usage, shared_bytes=128))],
        [built()],
        [kernel()],
        [("shared-mismatch", "k: the log says 128 shared bytes, the binary 256")],
    ),
    "relocatable code: the object says so": ([logged()], [built(24, final=False)], [kernel(final=False)], []),
    "relocatable code, linked: the binary has the last word, spills stay the compiler's": (
        [logged(24, final=False)],
        [built(254, 40)],
        [kernel(254, stack=40, final=True)],
        [],
    ),
    "an object and what it was linked into: the object is left out": (
        [logged(24, final=False)],
        [built(24, final=False), built(254, 40, place="lib.so", final=True)],
        [kernel(254, stack=40, final=True)],
        [],
    ),
    "a listing fills what the log does not say": ([logged(None)], [listed()], [kernel(code=None)], []),
    "log and listing differ": (
        [logged()],
        [listed(41)],
        [kernel(code=None)],
        [("registers-mismatch", "k: the log says 40 registers, the resource listing 41")],
    ),
    "log, listing and binary": ([logged(None)], [listed(), built()], [kernel()], []),
    "a kernel that only the linker names gets its role from the code": (
        [logged(role="unknown", spills=None)],
        [dumped(role="function")],
        [kernel(role="function", spills=None)],
        [],
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_join_of_log_disassembly_and_binary(case: str) -> None:
    kernels, others, expected, issues = TABLE[case]
    found, contradictions = attach_code(kernels, others)
    assert [said(each) for each in found] == expected
    assert [reason(each) for each in contradictions] == issues
    assert {each.code for each in contradictions} <= KINDS.keys()


@pytest.mark.parametrize(("unread", "codes"), [((), ["not-in-dump"]), (("b.o",), []), (("c.o",), ["not-in-dump"])])
def test_code_of_a_file_that_an_issue_names_is_not_missing(unread: tuple[str, ...], codes: list[str]) -> None:
    _, issues = attach_code([logged(), logged(symbol="j", unit="b.o")], [built()], unread)
    assert [each.code for each in issues] == codes


@pytest.mark.parametrize(
    ("kind", "number", "codes"), [(LOST_SETTING, 3, ["setmaxnreg-mismatch"]), (LOST_SETTING, 0, []), ("other", 3, [])]
)
def test_a_setting_that_the_log_calls_lost_and_the_code_has(kind: Any, number: int, codes: list[str]) -> None:
    code = dumped()
    log = logged(advisories=(Advisory(kind=kind, text="lost", severity="warning"),))
    _, issues = attach_code([log], [replace(code, stats=replace(code.stats, opcodes=((SETS_REGISTERS, number),)))])
    assert [each.code for each in issues] == codes


@pytest.mark.parametrize(
    ("log", "code", "archs"),
    [
        ("8 4", "80:4 90:8 90:8", "90 80"),
        ("4 4", "80:4 90:4", "80 90"),
        ("4 4 warned", "80:4 90:4", "? ?"),
        ("4 4 4", "80:4 90:4", "? ? ?"),
        ("4 8", "80:4 90:4", "? ?"),
    ],
)
def test_archs_of_device_functions_for_which_the_log_names_none(log: str, code: str, archs: str) -> None:
    kernels = [logged(None, (int(each),) * 2, arch=None, role="function") for each in log.split() if each.isdigit()]
    if "warned" in log:
        kernels[0] = replace(kernels[0], advisories=(Advisory(kind="other", text="slow", severity="warning"),))
    items: list[Any] = [listed(8), listed(9, arch="sm_90")] * ("?" in archs)
    for arch, size in (each.split(":") for each in code.split()):
        frame = Traffic(store_bytes=int(size), load_bytes=int(size))
        items.append(built(int(arch), arch=f"sm_{arch}", role="function", frame=frame))
    found, _ = attach_code(kernels, items)
    assert " ".join(str(each.usage.registers or "?") for each in found) == archs
    assert all(each.key.arch == (f"sm_{each.usage.registers}" if "?" not in archs else None) for each in found)


@pytest.mark.parametrize(("callers", "caller"), [(["a"], "a"), (["a", "a"], "a"), (["a", "b"], "")])
def test_the_kernel_that_a_device_function_is_copied_into(callers: list[str], caller: str) -> None:
    found, _ = attach_code([logged(role="function")], [dumped(role="function", caller=each) for each in callers])
    assert [each.caller for each in found] == [caller]


@pytest.mark.parametrize(("evidence", "spills"), [("annotation", (12, 16)), ("last-use", None)])
def test_spills_of_callees_are_those_that_ptxas_annotated(evidence: Any, spills: Any) -> None:
    code = dumped()
    local = replace(code.stats.local, cumulative=Traffic(store_bytes=12, load_bytes=16), evidence=evidence)
    (found,), _ = attach_code([], [replace(code, stats=replace(code.stats, local=local))])
    assert found.usage.cumulative_spills == spills


def test_places_of_an_objects_code_in_programs_are_kept() -> None:
    """Each file is judged by what it holds."""
    places = ["a.o", "app", "lib.a", "lib.so"]
    kernels, _ = attach_code([logged()], [built(digest="d", place=each) for each in places])
    assert [[origin.input for origin in each.origins] for each in kernels] == [["build.log", *places]]


def test_units_that_no_log_reports_are_named() -> None:
    places = ("a.o", "b.o", "b.o", "c.o", "d.o", "e.o")
    others = [built(symbol=f"f{number}", place=place) for number, place in enumerate(places)]
    _, (issue,) = attach_code([logged()], [built(), *others])
    assert issue.message == "6 functions of a.o, b.o, c.o and 2 more are in no build log: f0, …"


@pytest.mark.parametrize(
    ("role", "arch", "candidates", "copies", "why"),
    [
        ("entry", None, [dumped(arch="sm_80"), dumped(arch="sm_90")], False, "a kernel has one code an arch"),
        ("function", None, [dumped(arch="sm_80"), dumped(arch="sm_90")], True, "compiled for several archs"),
        ("function", "sm_80", [dumped(arch="sm_80"), dumped(arch="sm_90")], False, "the log names the arch"),
        (
            "function",
            None,
            [dumped(arch="sm_80"), dumped(arch="sm_80")],
            False,
            "two of one arch are same-named kernels",
        ),
        ("function", "sm_80", [dumped(caller="k"), dumped(caller="l")], True, "copied into each kernel"),
        ("function", "sm_80", [dumped(caller="k"), dumped()], False, "one stands alone"),
    ],
)
def test_code_of_one_function(
    role: Any, arch: str | None, candidates: list[SassFunction], copies: bool, why: str
) -> None:
    assert _are_copies(logged(role=role, arch=arch), candidates) is copies, why


def test_a_contradiction_has_the_logs_place_if_there_is_one() -> None:
    dump = Origin(input="dump.sass", line=7)
    found = [contradiction("code", logged(origins=origins), "text", dump) for origins in ((LOG,), ())]
    assert [(each.origin, each.message) for each in found] == [
        (LOG, f"k: text ({LOG}, {dump})"),
        (dump, "k: text"),
    ]
    assert contradiction("code", logged(), "text", None).origin is LOG
