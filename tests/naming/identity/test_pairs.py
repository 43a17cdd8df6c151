"""Pairing: nothing lost, nothing paired across archs or roles, the same however the kernels are ordered."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spillscan.judging.compare.pairing import diff
from spillscan.model import Build, Kernel, KernelKey, LaunchBounds, Role, Usage
from spillscan.model.code import SassStats
from spillscan.model.local import Group, LocalTraffic
from spillscan.naming.pairs import Pair, pair
from tests.naming.identity import generator

ROLES: tuple[Role, ...] = ("entry", "function")


def kernel(symbol: str, registers: int = 32, *, arch: str = "sm_90", unit: str = "", role: Role = "entry") -> Kernel:
    key = KernelKey(symbol=symbol, arch=arch, unit=unit)
    return Kernel(key=key, role=role, usage=Usage(registers=registers, spill_store_bytes=0, spill_load_bytes=0))


def keys(pairs: list[Pair]) -> set[tuple[object, ...]]:
    return {(p.before and (p.before.key, p.before.usage), p.after and (p.after.key, p.after.usage)) for p in pairs}


def lambda_kernel(number: str, registers: int) -> Kernel:
    return kernel(f"_Z5applyIZ4hostvEUlfE{number}_EvT_Pf", registers)


def registers(pairs: list[Pair]) -> set[tuple[int | None, int | None]]:
    return {(p.before and p.before.usage.registers, p.after and p.after.usage.registers) for p in pairs}


def test_order_does_not_matter() -> None:
    case = generator.make(5, templates=60)
    rng = random.Random(3)
    first = keys(pair(case.base, case.head))
    for _ in range(3):
        rng.shuffle(case.base)
        rng.shuffle(case.head)
        assert keys(pair(case.base, case.head)) == first


def test_both_directions_agree() -> None:
    case = generator.make(7, templates=60)
    forth = keys(pair(case.base, case.head))
    assert {(after, before) for before, after in keys(pair(case.head, case.base))} == forth


names = st.sampled_from(
    [
        "saxpy",
        "_Z3fooi",
        "_Z3fooPf",
        "_ZN36_GLOBAL__N__5cb7265f_4_n_cu_0d6229933barEPi",
        "_ZN36_GLOBAL__N__aeba40bb_4_m_cu_0d6229933barEPi",
        "_Z5applyIZ4hostvEUlfE_EvT_Pf",
        "_Z5applyIZ4hostvEUlfE0_EvT_Pf",
        "_Z5applyIZ4hostvEUlfE1_EvT_Pf",
        "_ZN2ns3barEPi",
        "void f<{lambda(int)#1}>(float*)",
        "void f<{lambda(int)#2}>(float*)",
    ]
)
kernels = st.lists(
    st.builds(
        kernel,
        names,
        st.integers(30, 33),
        arch=st.sampled_from(("sm_80", "sm_90")),
        unit=st.sampled_from(("", "a.o", "b.o")),
        role=st.sampled_from(("entry", "function")),
    ),
    max_size=14,
)


@given(kernels, kernels)
def test_each_kernel_once(base: list[Kernel], head: list[Kernel]) -> None:
    pairs = pair(base, head)
    assert sorted(id(p.before) for p in pairs if p.before) == sorted(map(id, base))
    assert sorted(id(p.after) for p in pairs if p.after) == sorted(map(id, head))
    for before, after, _ in pairs:
        if before and after:
            assert before.key.arch == after.key.arch
            assert (before.role == "function") == (after.role == "function")


@given(kernels)
def test_a_build_does_not_differ_from_itself(build: list[Kernel]) -> None:
    for before, after, renamed in pair(build, list(reversed(build))):
        assert before is not None
        assert after is not None
        assert not renamed
        assert before.usage == after.usage


def test_a_lambda_put_before_others() -> None:
    base = [lambda_kernel("", 20), lambda_kernel("0", 40)]
    head = [lambda_kernel("", 99), lambda_kernel("0", 20), lambda_kernel("1", 40)]
    assert registers(pair(base, head)) == {(20, 20), (40, 40), (None, 99)}
    worse = [lambda_kernel("", 99), lambda_kernel("0", 20), lambda_kernel("1", 48)]
    assert registers(pair(base, worse)) == {(20, 20), (40, 48), (None, 99)}


def test_lambdas_that_change_keep_their_numbers() -> None:
    base = [lambda_kernel("", 20), lambda_kernel("0", 40)]
    assert registers(pair(base, [lambda_kernel("", 40), lambda_kernel("0", 20)])) == {(20, 40), (40, 20)}


def test_the_tenth_lambda_follows_the_ninth() -> None:
    base = [lambda_kernel(number, 20 + index) for index, number in enumerate(("", *map(str, range(12))))]
    head = [lambda_kernel("", 200)]
    head += [lambda_kernel(str(index), 21 + index if index == 11 else 20 + index) for index in range(13)]
    changed = {(one, other) for one, other in registers(pair(base, head)) if one != other}
    assert changed == {(31, 32), (None, 200)}


def test_objects_move() -> None:
    base = [kernel("saxpy", 20, unit="a.o"), kernel("saxpy", 30, unit="b.o")]
    head = [kernel("saxpy", 30, unit="lib/b.o"), kernel("saxpy", 24, unit="lib/a.o")]
    assert registers(pair(base, head)) == {(20, 24), (30, 30)}


def test_statics_of_two_files_keep_apart() -> None:
    def static(checkout: str, file: str, figure: int) -> Kernel:
        return kernel(f"__nv_static_25__{checkout}_4_{file}_cu_0d622993__Z4statPi", figure)

    base = [static("5cb7265f", "a", 20), static("5cb7265e", "b", 60)]
    head = [static("aeba40bb", "b", 20), static("aeba40bc", "a", 60)]
    assert registers(pair(base, head)) == {(20, 60), (60, 20)}


def test_another_instance_of_a_living_template_is_another_kernel() -> None:
    def instance(argument: str, figure: int) -> Kernel:
        return kernel(f"_ZN2ns5scaleI{argument}EEvPT_", figure)

    base = [instance("f", 20), instance("d", 30), instance("i", 40)]
    head = [instance("f", 20), instance("d", 30), instance("6__half", 12)]
    assert (40, 12) not in registers(pair(base, head))
    assert (40, 41) in registers(pair([instance("i", 40)], [kernel("_ZN2ns5scaleIiLb1EEEvPT_", 41)]))


def test_unrelated_kernels_are_not_renames() -> None:
    """Neither a word that any kernel has nor equal registers make one of another."""
    base = [kernel("_Z10foo_kernelPfi", 24), kernel("_Z7scatterPfi", 30), kernel("saxpy_kernel", 16)]
    head = [kernel("_Z10bar_kernelPfi", 24), kernel("_Z6bitonePfi", 30), kernel("dot_kernel", 16)]
    assert all(before is None or after is None for before, after, _ in pair(base, head))


def test_many_namesakes() -> None:
    base = [kernel("saxpy", 20 + number % 100) for number in range(5000)]
    head = [kernel("saxpy", 20 + number % 100) for number in range(4990)]
    pairs = pair(base, list(reversed(head)))
    assert sum(before is not None and after is not None for before, after, _ in pairs) == 4990
    assert all(before.usage == after.usage for before, after, _ in pairs if before and after)


# ---- archs of one family ------------------------------------------------------------------------------------------


def archs(pairs: list[Pair]) -> set[tuple[str | None, str | None]]:
    return {(p.before and p.before.key.arch, p.after and p.after.key.arch) for p in pairs}


@pytest.mark.parametrize(("old", "new"), [("sm_90", "sm_90a"), ("sm_100a", "sm_100f"), ("sm_120f", "sm_120")])
def test_archs_of_one_family_are_compared(old: str, new: str) -> None:
    names = ("_Z4moveIfEvPf", "_Z5applyIZ4hostvEUlfE_EvT_Pf", "_ZN36_GLOBAL__N__5cb7265f_4_n_cu_0d6229933barEPi")
    base = [kernel(name, arch=old, role=role) for name in names for role in ROLES]
    head = [kernel(name, arch=new, role=role) for name in names for role in ROLES]
    assert archs(pair(base, head)) == {(old, new)}
    assert not any(renamed for _, _, renamed in pair(base, head))
    assert archs(pair(base, head, families=False)) == {(old, None), (None, new)}
    moved = [("3old", old), ("2ns", new)]
    renamed = [[kernel(f"_ZN{scope}4move{t}EvPf", arch=arch) for t in ("IfE", "IdE")] for scope, arch in moved]
    assert archs(pair(*renamed)) == {(old, new)}


@pytest.mark.parametrize(("old", "new"), [("sm_90", "sm_100"), ("sm_100f", "sm_103f"), ("sm_9", "sm_90"), ("", "a")])
def test_archs_of_two_families_are_not(old: str, new: str) -> None:
    assert archs(pair([kernel("_Z4movePf", arch=old)], [kernel("_Z4movePf", arch=new)])) == {(old, None), (None, new)}


def test_an_arch_goes_before_its_family() -> None:
    base = [kernel("_Z4movePf", 20, arch="sm_90"), kernel("_Z4copyPf", 30, arch="sm_90")]
    head = [kernel("_Z4movePf", 21, arch="sm_90"), kernel("_Z4movePf", 20, arch="sm_90a")]
    head += [kernel("_Z4copyPf", 31, arch="sm_90a")]
    assert registers(pair(base, head)) == {(20, 21), (None, 20), (30, 31)}


# ---- machine code -------------------------------------------------------------------------------------------------


def coded(item: Kernel, loads: int, instructions: int = 400) -> Kernel:
    opcodes = (("FFMA", instructions - loads), ("LDG", loads))
    return replace(item, sass=SassStats(instructions=instructions, code_bytes=16 * instructions, opcodes=opcodes))


def test_of_namesakes_those_with_equal_code_pair() -> None:
    base = [coded(lambda_kernel("", 32), 5), coded(lambda_kernel("0", 32), 9)]
    head = [coded(lambda_kernel("", 32), 7), coded(lambda_kernel("0", 32), 5), coded(lambda_kernel("1", 32), 9)]
    pairs = [(p.before and p.before.sass, p.after and p.after.sass) for p in pair(base, head)]
    assert all(before == after for before, after in pairs if before)
    assert len(pairs) == 3


def candidate(code: str, threads: int = 128, registers: int = 64, **chosen: str) -> Kernel:
    """One of the kernels that a tuner made of one source."""
    made = kernel("mm", registers)
    return replace(
        made,
        sass=SassStats(instructions=100, code_bytes=1600, opcodes=(("HMMA", 16),), digest=code),
        launch_bounds=LaunchBounds(required_threads=threads),
        configuration=tuple(chosen.items()),
    )


def codes(pairs: list[Pair]) -> set[tuple[str | None, str | None]]:
    return {
        (p.before and p.before.sass and p.before.sass.digest, p.after and p.after.sass and p.after.sass.digest)
        for p in pairs
    }


def test_candidates_are_paired_by_code_then_by_what_they_were_tuned_for() -> None:
    base = [candidate(code, tile=tile) for code, tile in (("a", "64"), ("b", "32"), ("c", "16"))]
    head = [candidate(code, tile=tile) for code, tile in (("d", "128"), ("B", "32"), ("a", "64"))]
    assert codes(pair(base, head)) == {("a", "a"), ("b", "B"), ("c", None), (None, "d")}
    assert codes(pair(base, head[::-1])) == codes(pair(base, head))


def test_of_candidates_whose_block_size_alone_is_known_other_code_is_another_candidate() -> None:
    base = [candidate("a"), candidate("b", registers=80)]
    head = [candidate("c", registers=80), candidate("a")]
    assert codes(pair(base, head)) == {("a", "a"), ("b", None), (None, "c")}
    other_compiler = [candidate("d", 256), candidate("e", registers=80)]
    assert codes(pair([candidate("f", registers=72), candidate("g", 256)], other_compiler)) == {("f", "e"), ("g", "d")}


def test_one_kernel_that_was_tuned_anew_is_one_that_changed() -> None:
    assert codes(pair([candidate("a", tile="64")], [candidate("b", tile="32")])) == {("a", "b")}


def test_code_that_is_the_same_byte_for_byte_is_no_change() -> None:
    """Read by another rule, the same instructions are other spills: of one of them ptxas marks no spills."""
    before = candidate("a")
    assert before.sass is not None
    traffic = LocalTraffic(kept=((Group("spill", True, 4, 0, False), 3),), evidence="last-use")
    after = replace(before, sass=replace(before.sass, local=traffic))
    other = replace(after, sass=replace(after.sass, digest="b"))  # type: ignore[type-var]
    assert not diff(Build(kernels=(before,)), Build(kernels=(after,)))
    assert diff(Build(kernels=(before,)), Build(kernels=(other,)))
