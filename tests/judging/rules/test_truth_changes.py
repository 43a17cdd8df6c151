"""What rules say of a change, one fact a row: every rule that finds something, its severity and message; what is
undecided, and why. Severity follows effect: registers, stacks and blocks by what they cost. Typed by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from spillscan.judging import rules
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.model import LOST_SETTING, Advisory, Build, Kernel, KernelKey, LaunchBounds, Usage
from spillscan.model.code import Group, LocalTraffic, SassStats, Traffic, WarpRole

CLEAN = {"registers": 32, "spill_store_bytes": 0, "spill_load_bytes": 0, "barriers": 1}
IGNORED = Advisory(kind=LOST_SETTING, text="'setmaxnreg' ignored", severity="info")


def sass(*groups: tuple[Any, ...], budgets: tuple[int, ...] = ()) -> SassStats:
    """Code with groups of (kind, depth, instructions), and roles of these registers."""
    local = LocalTraffic(kept=tuple((Group(kind, True, 4, depth, False), count) for kind, depth, count in groups))
    roles = tuple(
        WarpRole(address=at * 16, registers=asked, follows=True, spill=None, local=Traffic())
        for at, asked in enumerate(budgets)
    )
    opcodes = (("USETMAXREG", len(budgets)),) if budgets else (("NOP", 9),)
    return SassStats(instructions=9, code_bytes=144, opcodes=opcodes, local=local, roles=roles)


class Row(NamedTuple):
    """One fact."""

    why: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    found: Mapping[str, tuple[str, str]] | None = MappingProxyType({})
    """(severity, message) by rule; ``None``: anything but a trade-off."""
    undecided: Mapping[str, str] = MappingProxyType({})
    """Reason by rule."""
    options: Mapping[str, str] = MappingProxyType({})
    launch: str = ""


def registers(old: int, new: int, severity: str, message: str, why: str, **more: Any) -> Row:
    found = {"register-growth": (severity, f"uses more registers: {old} → {new} (+{new - old}), {message}")}
    return Row(why, {"registers": old}, {"registers": new}, found, **more)


def traded(
    why: str, old: tuple[int, int], new: tuple[int, int], blocks: str, threads: int, options: Mapping[str, str] = {}
) -> Iterator[Row]:
    """A change of (registers, bytes of spill stores), which trades ``blocks`` or is no trade-off."""
    sides = [{"registers": registers, "spill_store_bytes": spills} for registers, spills in (old, new)]
    way = "trades occupancy for spills" if new[1] == 0 else "can launch now, and spills"
    message = f"{way}: {old[1]} → {new[1]} B, {blocks} blocks/SM on sm_80 at {threads} threads"
    found = {"blocks-traded": ("warning", message)} if blocks else None
    yield Row(why, *sides, found, options=options, launch=str(threads))  # type: ignore[arg-type]


STACK = "uses more stack: {} → {} B (+{})"
TABLE = [
    Row("nothing changed", {}, {}),
    Row("everything got better", {"registers": 64, "spill_store_bytes": 8}, {}),
    Row(
        "new spills",
        {},
        {"spill_store_bytes": 4, "spill_load_bytes": 8},
        {"spill": ("error", "spills more: stores 0 → 4 B (+4), loads 0 → 8 B (+8)")},
    ),
    Row(
        "more spills are growth, not new",
        {"spill_store_bytes": 4},
        {"spill_store_bytes": 12},
        {"spill-growth": ("error", "spills more: stores 4 → 12 B (+8)")},
    ),
    Row(
        "new loads beside old stores are growth",
        {"spill_store_bytes": 4},
        {"spill_store_bytes": 4, "spill_load_bytes": 8},
        {"spill-growth": ("error", "spills more: loads 0 → 8 B (+8)")},
    ),
    Row(
        "a fall in one excuses no rise in the other",
        {"spill_store_bytes": 64, "spill_load_bytes": 8},
        {"spill_load_bytes": 12},
        {"spill-growth": ("error", "spills more: loads 8 → 12 B (+4)")},
    ),
    Row("growth that is allowed", {}, {"spill_store_bytes": 4}, options={"max_spill_growth_bytes": "4"}),
    Row(
        "growth of callees alone",
        {"cumulative_spill_store_bytes": 0, "cumulative_spill_load_bytes": 0},
        {"cumulative_spill_store_bytes": 8, "cumulative_spill_load_bytes": 0},
        {"spill": ("error", "spills more: stores with its callees 0 → 8 B (+8)")},
    ),
    Row(
        "a new kernel that spills",
        None,
        {"spill_store_bytes": 4},
        {"spill": ("error", "is new and spills 4 B stores, 0 B loads")},
    ),
    Row("a new kernel that does not", None, {}),
    Row(
        "a new kernel that does not say",
        None,
        {"spill_store_bytes": None},
        undecided={"spill": "the head does not say whether it spills"},
    ),
    Row(
        "a kernel that is gone",
        {"spill_store_bytes": 4},
        None,
        {"kernel-removed": ("note", "was removed")},
    ),
    Row(
        "the base does not say",
        {"spill_store_bytes": None},
        {"spill_store_bytes": 4},
        undecided={"spill": "it spills, and the base does not say whether it did before"},
    ),
    Row("the base does not say, and there are none now: no growth", {"spill_store_bytes": None}, {}),
    Row(
        "the head does not say",
        {},
        {"spill_store_bytes": None},
        undecided={"spill": "the head does not say whether it spills"},
    ),
    registers(33, 40, "note", "40 allocated as before", "inside a step"),
    registers(24, 25, "note", "24 → 32 allocated; no block size loses blocks/SM", "across a step, at no block size"),
    registers(
        40,
        41,
        "warning",
        "40 → 48 allocated; fewer blocks/SM on sm_80 at 64 to 288, 352 to 384, 448 to 512, 672 to 768 threads",
        "across a step, at some block sizes",
    ),
    registers(48, 100, "error", "48 → 104 allocated", "across a step, at every block size"),
    registers(
        24,
        25,
        "note",
        "24 → 32 allocated; no block size loses blocks/SM",
        "a launch that is known makes nothing more severe",
        launch="32",
    ),
    registers(
        41,
        49,
        "warning",
        "48 → 56 allocated; keeps 1 block/SM on sm_80",
        "across a step, and no block is lost",
        launch="1024",
    ),
    Row(
        "across a step, and a block is lost: that is the finding",
        {"registers": 32},
        {"registers": 33},
        {"blocks-lost": ("error", "loses blocks/SM: 2 → 1 on sm_80 at 1024 threads, limited by registers")},
        launch="1024",
    ),
    Row(
        "it cannot launch any more",
        {"registers": 64},
        {"registers": 72},
        {
            "launch-fails": (
                "error",
                "cannot launch: 72 registers × 1,024 threads = 73,728 > 65,536 (launch from --launch)",
            )
        },
        launch="1024",
    ),
    Row(
        "its largest block cannot be launched any more: a block lost for nothing",
        {"registers": 64, "launch_bounds": LaunchBounds(max_threads=1024), "dynamic_shared": False},
        {"registers": 72, "launch_bounds": LaunchBounds(max_threads=1024), "dynamic_shared": False},
        {
            "blocks-lost": (
                "error",
                "loses blocks/SM: 1 → 0 on sm_80 at 1024 threads (its launch bounds): cannot launch",
            ),
        },
    ),
    Row(
        "a new kernel that cannot be launched",
        None,
        {"registers": 72},
        {
            "launch-fails": (
                "error",
                "cannot launch: 72 registers × 1,024 threads = 73,728 > 65,536 (launch from --launch)",
            )
        },
        launch="1024",
    ),
    *traded("spills end, a block is lost, one is left", (64, 8), (96, 0), "2 → 1", 512),
    *traded("no block is left", (64, 8), (144, 0), "", 512),
    *traded("fewer blocks than the policy asks for", (64, 8), (96, 0), "", 512, {"min_blocks_per_sm": "2"}),
    *traded("as many blocks as the policy asks for", (40, 8), (64, 0), "3 → 2", 512, {"min_blocks_per_sm": "2"}),
    *traded("spills become fewer, but do not end", (64, 80), (96, 4), "", 512),
    *traded("nothing was spilled", (64, 0), (96, 0), "", 512),
    *traded("it could not launch, can now, and spills", (144, 0), (128, 8), "0 → 1", 512),
    *traded("it could launch before, and spills for a block more", (96, 0), (64, 8), "", 512),
    *traded("it cannot launch yet, and spills", (200, 0), (160, 8), "", 512),
    Row(
        "growth of registers that is allowed",
        {"registers": 40},
        {"registers": 41},
        options={"max_register_growth": "1"},
    ),
    Row("no limit of growth", {"registers": 40}, {"registers": 99}, options={"max_register_growth": "none"}),
    Row(
        "registers that the head does not say",
        {},
        {"registers": None},
        undecided={"register-growth": "the head does not say how many registers it uses"},
    ),
    Row(
        "registers that the base does not say",
        {"registers": None},
        {},
        undecided={"register-growth": "the base does not say how many registers it uses"},
    ),
    Row(
        "linked against not linked",
        {"final": True},
        {"final": False, "registers": 99},
        undecided={
            "register-growth": "relocatable code is not linked in the head: registers are final only after the link; "
            "give its log too (nvcc -Xnvlink -v)"
        },
    ),
    Row("both not linked", {"final": False, "registers": 32}, {"final": False, "registers": 32}),
    Row(
        "a stack that fits into what is reserved already",
        {"stack_bytes": 0},
        {"stack_bytes": 1024},
        {"stack-growth": ("note", STACK.format("0", "1,024", "1,024"))},
    ),
    Row(
        "a stack that reserves memory",
        {"stack_bytes": 0},
        {"stack_bytes": 1032},
        {"stack-growth": ("warning", STACK.format("0", "1,032", "1,032") + ", reserves 218 MiB on A100")},
    ),
    Row(
        "more shared memory",
        {"shared_bytes": 16},
        {"shared_bytes": 32},
        {"shared-growth": ("note", "uses more shared memory: 16 → 32 B per block")},
    ),
    Row(
        "spills that may have moved into shared memory",
        {"spill_store_bytes": 8, "shared_bytes": 16},
        {"shared_bytes": 32},
        {
            "shared-spill": (
                "note",
                "may have moved spills to shared memory (spill stores: 8 → 0 B, shared memory: 16 → 32 B per block)",
            )
        },
    ),
    Row(
        "the compiler says more than before",
        {},
        {"advisories": (IGNORED,)},
        {"setmaxnreg-ignored": ("error", "gets a message from ptxas: 'setmaxnreg' ignored")},
    ),
    Row("the compiler says it as before", {"advisories": (IGNORED,)}, {"advisories": (IGNORED,)}),
    Row(
        "more spills in loops",
        {"sass": sass(("spill", 1, 1))},
        {"sass": sass(("spill", 1, 1), ("spill", 2, 1))},
        {"spill-in-loop": ("warning", "spills more inside loops: spills in loops 1 → 2, spill loop depth 1 → 2")},
    ),
    Row(
        "a local array that was not there",
        {"sass": sass()},
        {"sass": sass(("array", 0, 2))},
        {"local-array": ("warning", "uses more local arrays: array stores 0 → 8 B")},
    ),
    Row(
        "a local array that is used more",
        {"sass": sass(("array", 0, 1))},
        {"sass": sass(("array", 0, 2))},
        {"local-array": ("note", "uses more local arrays: array stores 4 → 8 B")},
    ),
    Row(
        "code of the base alone",
        {"sass": sass()},
        {},
        undecided={"local-array": "the base has a dump of its machine code, the head has none"},
    ),
    Row("code of the head alone, which answers by itself", {}, {"sass": sass()}),
    Row(
        "code of the head alone, with an array",
        {},
        {"sass": sass(("array", 0, 1))},
        undecided={"local-array": "the head has a dump of its machine code, the base has none"},
    ),
    Row(
        "fewer roles",
        {"sass": sass(budgets=(40, 232))},
        {"sass": sass(budgets=(40,))},
        {"setmaxnreg-lost": ("error", "sets registers for fewer roles: setmaxnreg 40 and 232 → 40")},
    ),
    Row(
        "no roles",
        {"sass": sass(budgets=(40,))},
        {"sass": sass()},
        {"setmaxnreg-lost": ("error", "no longer sets registers per role (setmaxnreg 40)")},
    ),
    Row(
        "other numbers",
        {"sass": sass(budgets=(40,))},
        {"sass": sass(budgets=(48,))},
        {"setmaxnreg-lost": ("warning", "sets other registers per role: setmaxnreg 40 → 48")},
    ),
    Row(
        "roles whose newer code nobody shows: undecided",
        {"sass": sass(budgets=(40,))},
        {},
        undecided={
            "local-array": "the base has a dump of its machine code, the head has none",
            "setmaxnreg-lost": "its warps had registers of their own (setmaxnreg), and its newer code was not read",
        },
    ),
    Row(
        "roles that ptxas says it ignored: decided, whether or not the newer code is shown",
        {"sass": sass(budgets=(40,))},
        {"advisories": (IGNORED,)},
        {"setmaxnreg-ignored": ("error", "gets a message from ptxas: 'setmaxnreg' ignored")},
        {"local-array": "the base has a dump of its machine code, the head has none"},
    ),
    Row(
        "code and times that neither build shows: each of the two limits is undecided",
        {},
        {"spill_store_bytes": 0},
        undecided={
            "code-growth": "no input shows its machine code; give its binary",
        },
        options={"max_code_growth_percent": "5"},
    ),
]


def build(figures: dict[str, Any] | None) -> Build:
    if figures is None:
        return Build()
    usage = {
        name: figures.get(name, CLEAN.get(name)) for name in Usage.__struct_fields__ if name in {**CLEAN, **figures}
    }
    known = {name: value for name, value in figures.items() if name not in usage}
    key = KernelKey(symbol="k", arch="sm_80")
    return Build(kernels=(Kernel(key=key, usage=Usage(**usage), **{"role": "entry", **known}),))  # type: ignore[arg-type]


@pytest.mark.parametrize("fact", TABLE, ids=lambda fact: fact.why)
def test_a_change(fact: Row) -> None:
    launches = (f"*={fact.launch}",) if fact.launch else ()
    policy = Policy((from_options(fact.options, (), launches),))
    compared = comparison(build(fact.before), build(fact.after), policy, all_pairs=True)
    pairs = (*compared.changes, *compared.unsettled, *compared.equal)
    found = rules.regressions(pairs, policy)
    if fact.found is None:
        assert not {"blocks-traded"} & {each.rule for each in found}
        assert any(each.severity == "error" for each in found)
        return
    assert {each.rule: (each.severity, each.message) for each in found} == fact.found
    assert {each.rule.id: each.reason for each in rules.undecided_changes(pairs, policy)} == fact.undecided
