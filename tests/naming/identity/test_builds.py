"""Real builds of one code base: two checkouts, relocatable code, other archs, other toolkits, refactorings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan import diff, scan
from spillscan.judging.compare.pairing import comparison
from spillscan.model import Build, Change
from spillscan.model.local import Group, LocalTraffic
from spillscan.naming.symbol import canonical
from tests.conftest import FIXTURES, run
from tests.naming.identity.test_truth_pairing import kernel_of

RELEASES = ("13.0", "13.5")
each_release = pytest.mark.parametrize("release", RELEASES)


def build(name: str, release: str) -> Build:
    return scan([str(FIXTURES / "identity" / f"{name}-{release}.log")])


def changes(base: str, head: str, release: str) -> list[Change]:
    return diff(build(base, release), build(head, release))


def symbols(name: str, release: str) -> set[str]:
    return {kernel.key.symbol for kernel in build(name, release).kernels}


@each_release
@pytest.mark.parametrize(("base", "head"), [("here", "there"), ("here-rdc", "there-rdc")])
def test_two_checkouts_are_one_build(base: str, head: str, release: str) -> None:
    assert len(symbols(base, release) - symbols(head, release)) >= 6
    assert changes(base, head, release) == []


@each_release
def test_relocatable_code_keeps_its_names(release: str) -> None:
    """The compiler's figures differ there, as functions are called; the kernels are the same."""
    found = changes("here", "there-rdc", release)
    assert {change.state for change in found} == {"changed"}


@each_release
def test_a_hidden_kernel_that_spills_is_changed(release: str) -> None:
    (change,) = changes("here", "spilled", release)
    assert change.state == "changed"
    assert change.after is not None
    assert change.after.short_name == "hidden"
    spills = {metric: (before, after) for metric, before, after in change.metrics if metric.startswith("spill")}
    assert all(before == 0 and after and after > 1000 for before, after in spills.values())


@each_release
def test_a_rename_that_only_the_user_can_know_is_stated(release: str) -> None:
    assert sorted(change.state for change in changes("here", "renamed", release)) == ["added", "removed"]
    stated = [("softmax_rows", "softmax_rows_fused")]
    (change,) = comparison(build("here", release), build("renamed", release), stated=stated).changes
    assert change.state == "renamed"
    assert {metric: after for metric, _, after in change.metrics}["spill_store_bytes"] == 948


@each_release
def test_one_more_lambda_is_one_kernel_more(release: str) -> None:
    """The new lambda takes the number of the first, and moves the others'."""
    assert [change.state for change in changes("here", "lambda", release)] == ["added"]
    (back,) = changes("lambda", "here", release)
    assert back.state == "removed"


@each_release
def test_a_refactoring_is_renames(release: str) -> None:
    found = changes("here", "refactored", release)
    pairs = {(change.before.name, change.after.name) for change in found if change.before and change.after}
    assert sorted(change.kernel.short_name for change in found if change.state != "renamed") == [
        "histogram",
        "histogram_of_bytes",
    ]
    assert pairs == {
        ("gather(float const*, int const*, float*)", "gather(double const*, int const*, double*)"),
        ("void normalize<float>(float*, float)", "void normalize<float, true>(float*, float)"),
        ("void normalize<double>(double*, float)", "void normalize<double, true>(double*, float)"),
        ("void math::scale<float, 2>(float*, float)", "void vector_math::scale<float, 2>(float*, float)"),
        ("void math::scale<float, 4>(float*, float)", "void vector_math::scale<float, 4>(float*, float)"),
        ("void math::scale<double, 4>(double*, double)", "void vector_math::scale<double, 4>(double*, double)"),
    }


@each_release
def test_cub_after_another_list_of_archs(release: str) -> None:
    cub = [name for name in symbols("here", release) if "3cub" in name]
    assert len(cub) == 4
    assert not set(cub) & symbols("archs", release)
    found = changes("here", "archs", release)
    assert {change.state for change in found} == {"added"}
    assert {change.after.key.arch for change in found if change.after} == {"sm_80"}


def test_a_template_renamed_and_changed_is_compared(tmp_path: Path) -> None:
    """`gemm<8>` spills in the newer demo build, and is called `contract<8>` there."""
    demo = FIXTURES / "demo"
    (tmp_path / "head.log").write_text((demo / "head.log").read_text().replace("4gemm", "8contract"))
    base, head = scan([str(demo / "base.log")]), scan([str(tmp_path / "head.log")])
    found = [change for change in diff(base, head) if change.state == "renamed"]
    assert {(c.before.short_name, c.after.short_name) for c in found if c.before and c.after} == {("gemm", "contract")}
    assert [change.kernel.name[:23] for change in found if ("registers", 96, 64) in change.metrics] == [
        "void model::contract<8>"
    ] * 2
    result = run("diff", demo / "base.log", tmp_path / "head.log", "--fail-on", "policy")
    assert result.returncode == 1
    output = " ".join(result.stdout.decode().split())
    assert "renamed was model::gemm<8>" in output


@each_release
def test_same_named_kernels_in_two_files_keep_apart(release: str) -> None:
    hidden = {kernel.usage for kernel in build("here", release).kernels if kernel.short_name == "hidden"}
    names = {canonical(kernel.key.symbol) for kernel in build("here", release).kernels if kernel.short_name == "hidden"}
    assert len(hidden) == 2
    assert len(names) == 1
    (change,) = changes("here", "spilled", release)
    assert change.before is not None
    assert "identity_cu" in change.before.key.symbol


def test_equal_code_is_no_change_whatever_is_read_of_it() -> None:
    """By another rule the same instructions are other spills: ptxas marks none in one of the builds."""
    (_, before), (_, other) = kernel_of("a code=x"), kernel_of("a code=y")
    local = LocalTraffic(kept=((Group("spill", True, 4, 0, False), 3),), evidence="last-use")
    for kernel, changed in ((before, False), (other, True)):
        after = replace(kernel, sass=replace(kernel.sass, local=local))  # type: ignore[type-var]
        assert bool(diff(Build(kernels=(before,)), Build(kernels=(after,)))) == changed


def test_the_command_shows_renames() -> None:
    logs = [FIXTURES / "identity" / f"{name}-13.0.log" for name in ("here", "renamed", "refactored")]
    stated = "--rename", "softmax_rows=softmax_rows_fused"
    result = run("diff", logs[0], logs[1], *stated, "--fail-on", "policy")
    assert result.returncode == 1
    text = result.stdout.decode()
    assert "renamed       was softmax_rows" in text
    assert "1 changed, 1 renamed (1 of them changed), 0 added, 0 removed, 21 with the same metrics" in text
    assert "was gather(float const*, int const*, float*)" in run("diff", logs[0], logs[2]).stdout.decode()
    (change,) = json.loads(run("diff", logs[0], logs[1], *stated, "-f", "json").stdout)["changes"]
    assert (change["state"], change["evidence"]["kind"]) == ("renamed", "stated")
    assert change["metrics"]["spill_load_bytes"] == [0, 964]
