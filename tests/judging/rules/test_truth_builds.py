"""What rules say of one kernel, one fact a row: found, undecided or nothing, how bad it is, and why. Typed by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from spillscan.judging import rules
from spillscan.judging.rules import Terms
from spillscan.model import Advisory, Build, Kernel, KernelKey, Launch, Origin, Usage
from spillscan.model.code import Group, LocalTraffic, SassStats

REASON = ("lines of two kernels are mixed",)
UNLINKED = "relocatable code: {} not final; give the link's log too (nvcc -Xnvlink -v)"
SAY_LAUNCH = "give `launch: {threads_per_block: …}` in the policy, or --launch"
SPILL_WARNING = Advisory(kind="spill_warning", text="Registers are spilled", severity="warning")


def sass(*groups: tuple[Group, int], **more: Any) -> SassStats:
    return SassStats(instructions=9, code_bytes=144, opcodes=(("NOP", 9),), local=LocalTraffic(kept=groups), **more)


def spilling(count: int, depth: int | None, kind: Any = "spill", store: bool = True) -> tuple[Group, int]:
    return Group(kind, store, 4, depth, False), count


class Row(NamedTuple):
    """One fact."""

    why: str
    rule: str
    limits: dict[str, int | None]
    usage: dict[str, Any]
    kernel: dict[str, Any]
    launch: Launch | None
    found: tuple[str, str] | None
    """(severity, message)."""
    undecided: str | None
    measure: tuple[tuple[str, int], ...] | None


def row(
    why: str,
    rule: str,
    limits: dict[str, int | None],
    usage: dict[str, Any] | None = None,
    *,
    found: tuple[str, str] | None = None,
    undecided: str | None = None,
    measure: tuple[tuple[str, int], ...] | None = None,
    launch: Launch | None = None,
    **kernel: Any,
) -> Row:
    return Row(why, rule, limits, usage or {}, kernel, launch, found, undecided, measure)


R, S, M, B = {"max_registers": 40}, {"max_stack_bytes": 64}, {"max_shared_bytes": 1024}, {"min_blocks_per_sm": 2}
CODE = {"max_code_bytes": 100}
CLEAN = {"spill_store_bytes": 0, "spill_load_bytes": 0}
TABLE = [
    row("at the limit", "registers", R, {"registers": 40}, measure=(("registers", 40),)),
    row(
        "one beyond",
        "registers",
        R,
        {"registers": 41},
        found=("error", "uses 41 registers, 40 allowed"),
        measure=(("registers", 41),),
    ),
    row("no limit", "registers", {}, {"registers": 255}, measure=(("registers", 255),)),
    row("not said", "registers", R, undecided="the log does not say how many registers it uses"),
    row("not said, no limit", "registers", {}),
    row("not said, and why", "registers", R, reasons=REASON, undecided=REASON[0]),
    row(
        "before the link",
        "registers",
        R,
        {"registers": 40},
        final=False,
        undecided=UNLINKED.format("its registers are"),
    ),
    row(
        "too many already before the link: found, and not undecided, but no measure",
        "registers",
        R,
        {"registers": 41},
        final=False,
        found=("error", "uses 41 registers, 40 allowed"),
    ),
    row("a device function need not say", "registers", R, role="function"),
    row("at the limit", "stack", S, {"stack_bytes": 64}, measure=(("bytes", 64),)),
    row(
        "the call tree's stack counts, not the own frame",
        "stack",
        S,
        {"stack_bytes": 8, "cumulative_stack_bytes": 65},
        found=("error", "uses 65 B stack per thread, 64 B allowed"),
        measure=(("bytes", 65),),
    ),
    row(
        "the call tree's, also where it is less",
        "stack",
        S,
        {"stack_bytes": 99, "cumulative_stack_bytes": 16},
        measure=(("bytes", 16),),
    ),
    row(
        "a device function must say, too",
        "stack",
        S,
        role="function",
        undecided="the log does not say how large its stack is",
    ),
    row("a device function before the link", "stack", S, {"stack_bytes": 8}, role="function", final=False),
    row(
        "an entry before the link",
        "stack",
        S,
        {"stack_bytes": 8},
        final=False,
        undecided=UNLINKED.format("its stack is"),
    ),
    row("no shared memory printed beside registers: 0", "shared", M, {"registers": 8}, measure=(("bytes", 0),)),
    row("nothing printed", "shared", M, undecided="the log does not say how much shared memory it uses"),
    row(
        "static and dynamic together",
        "shared",
        M,
        {"registers": 8, "shared_bytes": 1000},
        launch=Launch(threads_per_block=32, dynamic_shared_bytes=25),
        found=("error", "uses 1,025 B shared memory per block (1,000 B static, 25 B dynamic), 1,024 B allowed"),
        measure=(("bytes", 1025),),
    ),
    row(
        "dynamic memory is declared, and no launch is known",
        "shared",
        M,
        {"registers": 8, "shared_bytes": 1000},
        dynamic_shared=True,
        undecided="its dynamic shared memory is not known: give `launch` in the policy, or --launch",
    ),
    row(
        "before the link, whatever is printed",
        "shared",
        M,
        {"registers": 8},
        final=False,
        undecided=UNLINKED.format("its shared memory is"),
    ),
    row("a device function has none of its own", "shared", M, {"shared_bytes": 4096}, role="function"),
    row("no code read", "code-size", CODE, undecided="no input shows its machine code; give its binary"),
    row(
        "no code read of a kernel in doubt: the doubt is not why",
        "code-size",
        CODE,
        reasons=REASON,
        undecided="no input shows its machine code; give its binary",
    ),
    row(
        "too much code, before the link as behind it",
        "code-size",
        CODE,
        sass=sass(),
        final=False,
        found=("error", "has 144 B of machine code, 100 B allowed"),
        measure=(("bytes", 144),),
    ),
    row("no spill", "spill", {}, CLEAN, measure=(("loads", 0), ("stores", 0))),
    row(
        "a spill, by default",
        "spill",
        {},
        {"spill_store_bytes": 4, "spill_load_bytes": 0},
        found=("error", "spills 4 B stores, 0 B loads"),
        measure=(("loads", 0), ("stores", 4)),
    ),
    row(
        "stores and loads together",
        "spill",
        {"max_spill_bytes": 7},
        {"spill_store_bytes": 4, "spill_load_bytes": 4},
        found=("error", "spills 4 B stores, 4 B loads, 7 B allowed"),
        measure=(("loads", 4), ("stores", 4)),
    ),
    row(
        "allowed",
        "spill",
        {"max_spill_bytes": 8},
        {"spill_store_bytes": 4, "spill_load_bytes": 4},
        measure=(("loads", 4), ("stores", 4)),
    ),
    row("not said", "spill", {}, undecided="the log does not say whether it spills"),
    row(
        "half said is not said",
        "spill",
        {},
        {"spill_store_bytes": 0},
        undecided="the log does not say whether it spills",
    ),
    row("not said, no limit", "spill", {"max_spill_bytes": None}),
    row(
        "a warning without figures",
        "spill",
        {},
        advisories=(SPILL_WARNING,),
        found=("error", "spills an unknown number of bytes"),
    ),
    row(
        "callees alone",
        "spill",
        {},
        {**CLEAN, "cumulative_spill_store_bytes": 8, "cumulative_spill_load_bytes": 4},
        found=("error", "spills 8 B stores, 4 B loads with its callees"),
        measure=(("callee_loads", 4), ("callee_stores", 8), ("loads", 0), ("stores", 0)),
    ),
    row(
        "code whose accesses may be spills",
        "spill",
        {},
        sass=sass(spilling(2, 0, "unknown")),
        undecided="spills at least 0 B, at most 8 B: the code alone does not say more",
        measure=(("loads", 0), ("stores", 8)),
    ),
    row(
        "a binary of which nothing is read",
        "spill",
        {},
        origins=(Origin(input="a.so", format="binary"),),
        undecided="the binary does not say whether it spills",
    ),
    row(
        "its least is too much already",
        "spill",
        {},
        sass=sass(spilling(1, 0), spilling(2, 0, "unknown")),
        found=("error", "spills at least 4 B, at most 12 B: the code alone does not say more"),
        measure=(("loads", 0), ("stores", 12)),
    ),
    row(
        "its most is allowed",
        "spill",
        {"max_spill_bytes": 8},
        sass=sass(spilling(2, 0, "unknown")),
        measure=(("loads", 0), ("stores", 8)),
    ),
    row(
        "deeper loops count for the shallower, too",
        "spill-in-loop",
        {},
        CLEAN,
        sass=sass(spilling(2, 1), spilling(3, 2), spilling(7, 0)),
        found=("warning", "spills inside loops, instructions: 3 at depth 2, 2 at depth 1"),
        measure=(("depth-1", 5), ("depth-2", 3)),
    ),
    row("outside of loops", "spill-in-loop", {}, CLEAN, sass=sass(spilling(7, 0)), measure=(("depth-1", 0),)),
    row("no code", "spill-in-loop", {}, CLEAN),
    row(
        "no launch",
        "blocks-per-sm",
        B,
        {"registers": 32},
        undecided=f"min_blocks_per_sm needs its launch: {SAY_LAUNCH}",
    ),
    row("no launch, no limit", "blocks-per-sm", {}, {"registers": 32}, measure=(("missing", 0),)),
    row(
        "one block fits",
        "blocks-per-sm",
        B,
        {"registers": 64, "barriers": 1},
        launch=Launch(threads_per_block=1024),
        found=("error", "has 1 block/SM, 2 required: limited by registers"),
        measure=(("missing", 1),),
    ),
    row(
        "two blocks fit",
        "blocks-per-sm",
        B,
        {"registers": 32, "barriers": 1},
        launch=Launch(threads_per_block=1024),
        measure=(("missing", 0),),
    ),
    row(
        "blocks before the link",
        "blocks-per-sm",
        B,
        {"registers": 64},
        final=False,
        launch=Launch(threads_per_block=1024),
        undecided=UNLINKED.format("its registers are"),
    ),
    row(
        "80 registers × 832 threads",
        "launch-fails",
        {},
        {"registers": 75},
        launch=Launch(threads_per_block=820, source="required"),
        found=(
            "error",
            "cannot launch: 75 registers (80 allocated) × 832 threads (26 whole warps) = 66,560 > 65,536"
            " (launch from its code: .reqntid)",
        ),
        measure=(("registers", 75), ("shared_bytes", 0), ("threads", 820)),
    ),
    row(
        "the same with 24 warps",
        "launch-fails",
        {},
        {"registers": 75},
        launch=Launch(threads_per_block=768, source="required"),
        measure=(),
    ),
    row(
        ".reqntid of more threads than any block",
        "launch-fails",
        {},
        {"registers": 8},
        launch=Launch(threads_per_block=2048, source="required"),
        found=(
            "error",
            "cannot launch: 2,048 threads: a block has at most 1,024 (launch from its code: .reqntid)",
        ),
        measure=(("registers", 8), ("shared_bytes", 0), ("threads", 2048)),
    ),
    row(
        "the largest block of launch bounds is not the launch",
        "launch-fails",
        {},
        {"registers": 153},
        launch=Launch(threads_per_block=512, source="bounds"),
        found=(
            "warning",
            "cannot launch with its largest block (512 threads): "
            "153 registers (160 allocated) × 512 threads = 81,920 > 65,536",
        ),
        measure=(("registers", 153), ("shared_bytes", 0), ("threads", 512)),
    ),
    row(
        "shared memory that no block has, launch unknown",
        "launch-fails",
        {},
        {"registers": 40, "shared_bytes": 180_000},
        found=("error", "cannot launch with any block size: 180,000 B shared memory: a block has at most 166,912 B"),
        measure=(("registers", 40), ("shared_bytes", 180_000), ("threads", 0)),
    ),
    row(
        "the same within launch bounds",
        "launch-fails",
        {},
        {"registers": 40, "shared_bytes": 180_000},
        launch=Launch(threads_per_block=64, source="bounds"),
        found=("error", "cannot launch with any block size: 180,000 B shared memory: a block has at most 166,912 B"),
        measure=(("registers", 40), ("shared_bytes", 180_000), ("threads", 64)),
    ),
    row(
        "dynamic shared memory that no block has",
        "launch-fails",
        {},
        {"registers": 40, "shared_bytes": 16},
        launch=Launch(
            threads_per_block=64, dynamic_shared_bytes=170_000, max_dynamic_shared_bytes=170_000, source="policy"
        ),
        found=("error", "cannot launch: 170,016 B shared memory: a block has at most 166,912 B (launch from policy)"),
        measure=(("registers", 40), ("shared_bytes", 170_016), ("threads", 64)),
    ),
    row(
        "launch and registers that fit nothing, before the link",
        "launch-fails",
        {},
        {"registers": 99},
        final=False,
        launch=Launch(threads_per_block=1024),
        measure=(),
    ),
    row("launch unknown", "launch-fails", {}, {"registers": 255}, measure=()),
    row("registers unknown", "launch-fails", {}, {}, launch=Launch(threads_per_block=1024)),
    row(
        "a device function is not launched",
        "launch-fails",
        {},
        {"registers": 99},
        role="function",
        launch=Launch(threads_per_block=1024),
        measure=(),
    ),
    row("a device function has no blocks", "blocks-per-sm", B, {"registers": 64}, role="function"),
]


class One:
    """The same terms for every kernel."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def terms_of(self, kernel: Kernel) -> Terms:
        return self.terms


@pytest.mark.parametrize("fact", TABLE, ids=lambda fact: f"{fact.rule}: {fact.why}")
def test_a_kernel(fact: Row) -> None:
    known: dict[str, Any] = {"role": "entry", **fact.kernel}
    kernel = Kernel(key=KernelKey(symbol="k", arch="sm_80"), usage=Usage(**fact.usage), **known)
    terms = Terms(limits=fact.limits, launch=fact.launch)
    judgement = rules.check(Build(kernels=(kernel,)), One(terms))
    found = [(each.severity, each.message) for each in judgement.findings if each.rule == fact.rule]
    assert found == ([] if fact.found is None else [fact.found]), fact.why
    undecided = [each.reason for each in judgement.undecided if each.rule.id == fact.rule]
    assert undecided == ([] if fact.undecided is None else [fact.undecided]), fact.why
    assert rules.measure(fact.rule, kernel, terms) == fact.measure, fact.why


@pytest.mark.parametrize("level", ["error", "warning", "note", "off"])
def test_a_severity_of_the_policy_holds_for_findings_and_for_what_is_undecided(level: Any) -> None:
    terms = One(Terms(limits=R, levels={"registers": level}))
    many, unknown = (
        Kernel(key=KernelKey(symbol=n), role="entry", usage=Usage(registers=r)) for n, r in (("a", 41), ("b", None))
    )
    judgement = rules.check(Build(kernels=(many, unknown)), terms)
    expected = [] if level == "off" else [level]
    assert [each.severity for each in judgement.findings if each.rule == "registers"] == expected
    assert [each.severity for each in judgement.undecided if each.rule.id == "registers"] == expected
