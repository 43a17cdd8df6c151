"""Roles of warp-specialised kernels: what runs with how many registers, and what is lost where ptxas drops it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan import scan
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check, check_changes
from spillscan.model import Build, serialize
from spillscan.model.code import SassStats
from spillscan.reading.machine.spillmap import registers_of
from tests.conftest import FIXTURES
from tests.oracle.roles_oracle import lost, naive, read
from tests.reading.disassembly.support import content

ARCHS = ("sm_90a", "sm_100a")
NAMES = {"two_roles", "three_roles", "with_a_start", "too_many"}


def built(form: str, state: str, arch: str) -> Build:
    files = {
        "binary": f"binary/roles-{state}-{arch}-13.5.cubin.zst",
        "cuobjdump": f"sass/roles-cuobjdump-{state}-{arch}-13.5.sass.zst",
        "nvdisasm": f"sass/roles-nvdisasm-{state}-{arch}-13.5.sass.zst",
    }
    return scan(str(FIXTURES / files[form]))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("form", ["binary", "cuobjdump", "nvdisasm"])
def test_roles_are_as_a_naive_reading_of_the_text_has_them(form: str, arch: str) -> None:
    text = content(FIXTURES / f"sass/roles-nvdisasm-kept-{arch}-13.5.sass.zst").decode()
    truth = naive(text)
    found = {kernel.key.symbol: read(kernel.sass) for kernel in built(form, "kept", arch).kernels if kernel.sass}
    assert found == truth
    assert set(found) == NAMES
    budgets = {name: sorted(role[0] for role in roles.values() if role[0] is not None) for name, roles in found.items()}
    assert budgets == {
        "two_roles": [24, 232],
        "three_roles": [24, 152, 240],
        "with_a_start": [24, 240],
        "too_many": [152, 232, 240],
    }
    spilled = {name for name, roles in found.items() if any(sum(role[1]) for role in roles.values())}
    assert spilled == {"two_roles", "with_a_start"}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("form", ["binary", "cuobjdump", "nvdisasm"])
def test_a_dropped_setmaxnreg_is_an_error_in_the_code(form: str, arch: str) -> None:
    kept, dropped = (built(form, state, arch) for state in ("kept", "dropped"))
    assert lost(kept, dropped) == NAMES
    assert lost(dropped, kept) == lost(kept, kept) == set()


@pytest.mark.parametrize("release", ["12.4", "12.9", "13.5"])
def test_a_dropped_setmaxnreg_is_an_error_in_the_log(release: str) -> None:
    kept, dropped = (scan(str(FIXTURES / f"ptxas/roles-{state}-{release}.log")) for state in ("kept", "dropped"))
    assert lost(kept, dropped) == NAMES
    assert lost(dropped, kept) == set()


def test_log_and_code_that_contradict_each_other_are_a_gap(tmp_path: Path) -> None:
    log = (FIXTURES / "ptxas/roles-dropped-13.5.log").read_text()
    cut = log.index("ptxas info    : (C7508)", log.index("two_roles"))  # the module of sm_90a alone
    (tmp_path / "build.log").write_text(log[:cut])
    binary = FIXTURES / "binary/roles-kept-sm_90a-13.5.cubin.zst"
    issues = [each for each in scan([str(tmp_path / "build.log"), str(binary)]).issues if each.hidden]
    assert {each.message.partition(":")[0] for each in issues if each.code == "setmaxnreg-mismatch"} == NAMES


def test_a_message_that_may_be_about_any_of_several_kernels_is_a_gap(tmp_path: Path) -> None:
    log = (FIXTURES / "ptxas/roles-dropped-13.5.log").read_text()
    (tmp_path / "build.log").write_text(log.partition("\n")[2])  # three messages, four kernels
    build = scan(str(tmp_path / "build.log"))
    first = [issue for issue in build.issues if issue.code == "unattached-setmaxnreg"]
    assert [(issue.severity, issue.hidden) for issue in first] == [("error", ("messages",))]


def test_registers_that_the_block_does_not_have_are_an_error() -> None:
    build = built("binary", "kept", "sm_90a")
    found = [each for each in check(build, Policy()).findings if each.rule == "role-registers"]
    assert [(each.kernel.key.symbol, each.severity) for each in found] == [("too_many", "error")]
    assert "add up to 624;" in found[0].message
    assert "504" in found[0].message


@pytest.mark.parametrize("form", ["binary", "nvdisasm"])
def test_other_numbers_are_a_warning(form: str) -> None:
    from msgspec.structs import replace

    base = built(form, "kept", "sm_90a")
    kernels = []
    for kernel in base.kernels:
        assert kernel.sass is not None
        roles = tuple(
            replace(role, registers=32 if role.registers == 24 else role.registers) for role in kernel.sass.roles
        )
        kernels.append(replace(kernel, sass=replace(kernel.sass, roles=roles, digest=None)))
    changes = comparison(base, Build(kernels=tuple(kernels))).changes
    assert {change.kernel.key.symbol for change in changes} == NAMES - {"too_many"}
    assert {metric for change in changes for metric in change.metrics} == {("role_registers[1]", 24, 32)}
    found = check_changes(changes, Policy()).findings
    assert {(each.rule, each.severity) for each in found} == {("setmaxnreg-lost", "warning")}


def test_a_snapshot_keeps_roles_and_digest() -> None:
    build = built("binary", "kept", "sm_100a")
    document = serialize.text({"schema_version": 1, "kernels": list(map(serialize.kernel_json, build.kernels))})
    back = serialize.build_of(document.encode())
    for before, after in zip(build.kernels, back.kernels, strict=True):
        assert before.sass is not None
        assert after.sass is not None
        assert (before.sass.roles, before.sass.digest) == (after.sass.roles, after.sass.digest)
        assert before.sass.digest


def test_registers_that_warps_set_are_no_registers_allocated() -> None:
    kept, dropped = (
        {
            kernel.key.symbol: registers_of(kernel.usage.registers, kernel.sass)
            for kernel in built("binary", state, "sm_90a").kernels
            if kernel.sass
        }
        for state in ("kept", "dropped")
    )
    assert kept["two_roles"] == "232 registers at launch, then 24, 232 (setmaxnreg)"
    assert kept["three_roles"].endswith(" registers at launch, then 24, 152, 240 (setmaxnreg)")
    assert all(each.endswith(" registers allocated") for each in dropped.values())
    unknown = SassStats(instructions=1, code_bytes=16, opcodes=(("USETMAXREG", 1),))
    assert registers_of(168, unknown) == "168 registers at launch, then an unknown number (setmaxnreg)"
    assert registers_of(None, unknown) == ""
