"""``spillscan diff`` as users and CI run it. ``python -m tests.judging.compare.test_diff`` writes golden texts."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan import diff, scan
from spillscan.judging.compare.metrics import totals
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check_changes
from spillscan.model import Build, at_least
from tests import test_readme
from tests.conforming import conforms
from tests.conftest import FIXTURES, ROOT, read_text, run
from tests.reporting import kernel

DOCUMENT = ROOT / "docs" / "diff.md"
GOLDEN = ROOT / "tests" / "golden"
BASE, HEAD = FIXTURES / "effects" / "base.log", FIXTURES / "effects" / "head.log"
SPILLS = [FIXTURES / "ptxas" / f"spill-{release}.log" for release in ("11.8", "12.9", "13.5")]
TORN = FIXTURES / "parallel" / "13.0" / "capture-8.log.gz"

CALLS = {
    "effects": ("diff", BASE, HEAD),
    "effects-launched": ("diff", BASE, HEAD, "--launch", "*=256", "--fail-on", "note"),
    "effects-devices": ("diff", BASE, HEAD, "--launch", "sums=256", "--device", "H100", "--device", "H200"),
    "back": ("diff", HEAD, BASE, "--top", "3"),
    "demo": ("diff", FIXTURES / "demo" / "base.log", FIXTURES / "demo" / "head.log"),
    "equal": ("diff", HEAD, HEAD),
    "messages": ("diff", FIXTURES / "ptxas" / "wgmma-12.4.log", FIXTURES / "ptxas" / "wgmma-13.0.log", "--top", "4"),
    "unknown": ("diff", FIXTURES / "parallel" / "13.0" / "sequential", TORN),
    "by-arch": ("diff", *SPILLS[1:], "--by", "arch"),
    "archs": ("diff", FIXTURES / "demo" / "head.log", "--by=arch", "--metric=resident_blocks", "--launch=*=256"),
}
WIDTHS = ("80", "160")


def printed(call: tuple[str | Path, ...], width: str) -> str:
    """Output at the top of a checkout."""
    words = [part.relative_to(ROOT) if isinstance(part, Path) else part for part in call]
    environment = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"} | {"COLUMNS": width}
    return run(*words, env=environment).stdout.decode()


def document(*arguments: str | Path) -> dict[str, Any]:
    result = run(*arguments, "-f", "json")
    assert result.stdout, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    conforms(value)
    return value


def status(*arguments: str | Path, stdin: bytes = b"") -> int:
    return run("diff", *arguments, stdin=stdin).returncode


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CALLS)
def test_text(name: str, width: str) -> None:
    found = printed(CALLS[name], width)
    assert found == (GOLDEN / f"diff-{name}-{width}.txt").read_text(encoding="utf-8")
    table = found.split("\n\n")[0]
    assert all(len(line) <= int(width) for line in table.splitlines())


def test_regressions_and_improvements_are_colored() -> None:
    painted = run(*CALLS["effects-launched"], env=os.environ | {"FORCE_COLOR": "1"}).stdout.decode().splitlines()
    assert any(line.startswith("\x1b[31m") and "868 B" in line for line in painted)
    assert any(line.startswith("\x1b[32m") and "(-112)" in line for line in painted)


# ---- JSON and CSV -------------------------------------------------------------------------------------------------


def test_json_of_a_diff() -> None:
    value = document("diff", BASE, HEAD, "--launch", "*=256")
    assert {change["state"] for change in value["changes"]} == {"changed"}
    changes = {change["after"]["symbol"]: change for change in value["changes"]}
    assert list(changes) == ["solve", "sums", "count", "pick", "relax", "stage"]
    sums = changes["sums"]
    assert (sums["before"]["arch"], sums["evidence"]["kind"]) == ("sm_90", "identity")
    assert sums["metrics"] == {"resident_blocks": [8, 5], "active_warps": [64, 40], "registers": [32, 48]}
    assert sums["occupancy"][0]["limiters"] == [["warps", "registers"], ["registers"]]
    assert changes["pick"]["unknown"] == {"cumulative_stack_bytes": [None, 64]}
    assert value["unsettled"] == value["gaps"] == []
    assert {finding["rule"] for finding in value["findings"]} >= {"spill", "blocks-lost", "stack-growth"}


def test_values_of_one_build_alone_are_unknown() -> None:
    old, new = (FIXTURES / "ptxas" / f"plain-{release}.log" for release in ("11.8", "12.9"))
    value = document("diff", old, new, "--arch", "sm_80")
    assert value["changes"] == [], "11.8 prints no barriers: neither equal nor different"
    assert {tuple(pair["unknown"]["barriers"]) for pair in value["unsettled"]} == {(None, 0)}
    assert {pair["state"] for pair in value["unsettled"]} == {"unknown"}
    assert status(old, new, "--arch", "sm_80", "--fail-on", "error") == 0, "no rule needs them"


def test_archs_as_json_and_csv() -> None:
    truth = {
        (k.key.symbol, f"{path.name} {k.key.arch}", k.usage.registers)
        for path in SPILLS
        for k in scan(path).kernels
        if k.role == "entry"
    }
    call = (*SPILLS, "--by", "arch", "--metric", "registers")
    value = json.loads(run("diff", *call, "-f", "json").stdout)
    assert value["builds"] == [path.name for path in SPILLS]
    table = list(csv.DictReader(io.StringIO(run("diff", *call, "-f", "csv").stdout.decode())))
    names = ("symbol", "name", "unit", "role", "metric")
    for rows in (value["rows"], table):
        cells = {(row["symbol"], head, row[head]) for row in rows for head in row if head not in names and row[head]}
        assert {(symbol, head, int(registers)) for symbol, head, registers in cells} == truth


def test_hostile_names_do_not_act(tmp_path: Path) -> None:
    log = (
        "ptxas info    : Compiling entry function 'k{}' for 'sm_80'\nptxas info    : Function properties for k{}\n"
        "    {} bytes stack frame, {} bytes spill stores, 0 bytes spill loads\nptxas info    : Used {} registers\n"
    )
    names = ["\x1b[31m", "\x9b2J", "\u202e", "=cmd()", "|<b>`"]
    for path, figures in (("a\x1b[2J.log", (0, 0, 24)), ("b.log", (8, 8, 40))):
        (tmp_path / path).write_text("".join(log.format(name, name, *figures) for name in names))
    builds = [tmp_path / "a\x1b[2J.log", tmp_path / "b.log"]
    for arguments in ((), ("--by", "arch")):
        shown = run("diff", *builds, *arguments, "--all").stdout.decode()
        assert shown.count("\n") >= len(names)
        assert all(sign.isprintable() or sign == "\n" for sign in shown)
        cells = [
            cell
            for row in csv.reader(io.StringIO(run("diff", *builds, *arguments, "-f", "csv").stdout.decode()))
            for cell in row
        ]
        assert not any(cell.startswith(("=", "+", "@")) for cell in cells)


# ---- the gate -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("launch", "fail_on", "expected"),
    [
        ((), "error", 1),
        ((), "never", 0),
        (("--kernel", "stage"), "error", 0),
        (("--kernel", "stage"), "warning", 0),
        (("--kernel", "stage"), "note", 1),
        (("--kernel", "count"), "error", 0),
        (("--kernel", "count"), "warning", 1),
        (("--kernel", "sums"), "error", 0),  # with 32 threads no block is lost, with more some are
        (("--kernel", "sums"), "warning", 1),
        (("--kernel", "sums", "--launch", "*=32"), "error", 0),
        (("--kernel", "sums", "--launch", "*=32"), "warning", 1),
        (("--kernel", "sums", "--launch", "*=256"), "error", 1),
    ],
)
def test_fail_on(launch: tuple[str, ...], fail_on: str, expected: int) -> None:
    assert status(BASE, HEAD, *launch, "--fail-on", fail_on) == expected


def test_a_base_that_does_not_tell_is_undecided(tmp_path: Path) -> None:
    # spills of the base unknown, those of the head not 0: it may have got worse
    log = read_text(HEAD)
    lines = log.splitlines(keepends=True)
    base = tmp_path / "base.log"
    base.write_text("".join(line for line in lines if "bytes stack frame" not in line and "Function prop" not in line))
    result = run("diff", base, HEAD, "--fail-on", "error")
    assert result.returncode == 2
    assert b"does not report spills" in result.stdout + result.stderr
    # a head without any has no growth, whatever the base was
    assert status(base, HEAD, "--fail-on", "error", "--kernel", "sums") == 0
    # registers known of neither side
    (tmp_path / "torn.log").write_text(read_text(TORN) + "\n")
    torn = run("diff", TORN, tmp_path / "torn.log", "--fail-on", "error")
    assert torn.returncode == 2
    assert b"interleaved" in torn.stdout + torn.stderr


@pytest.mark.oracle
def test_the_same_input_twice_is_no_regression_whatever_is_unknown(tmp_path: Path) -> None:
    copy = tmp_path / "copy.log.gz"
    copy.write_bytes(TORN.read_bytes())
    for one, other in ((TORN, TORN), (TORN, copy)):
        result = run("diff", one, other, "--fail-on", "error", "-f", "json")
        assert result.returncode == 0
        value = json.loads(result.stdout)
        assert {gap["accepted"] for gap in value["gaps"]} == {"both inputs are identical, byte for byte"}
        assert status(one, other, "--fail-on", "error", "--strict") == 2
    assert status(TORN, copy, "--fail-on", "error", "--set", "expect_kernels=9999") == 2
    folders = tmp_path / "old", tmp_path / "new"
    for folder in folders:
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "torn.log.gz").write_bytes(TORN.read_bytes())
    assert status(*folders, "--fail-on", "error") == 0
    (folders[1] / "sub" / "more.log").write_bytes(HEAD.read_bytes())
    assert status(*folders, "--fail-on", "error", "--kernel", "unit_*") == 2
    nothing = FIXTURES / "ptxas" / "wgmma-12.0.log"
    assert status(nothing, nothing, "--fail-on", "error") == 2, "no kernel was compared"


def test_a_base_that_is_not_whole_is_undecided(tmp_path: Path) -> None:
    whole = read_text(HEAD)
    (tmp_path / "cut.log").write_text(whole[: whole.rindex("ptxas info    : Used")])
    assert status(tmp_path / "cut.log", HEAD, "--fail-on", "error", "--kernel", "sums") == 2
    (tmp_path / "empty.log").write_text("ptxas info    : 0 bytes gmem\n")
    assert status(tmp_path / "empty.log", HEAD, "--fail-on", "error", "--kernel", "sums") == 2
    assert status(HEAD, tmp_path / "empty.log", "--fail-on", "error", "--kernel", "sums") == 2


def test_a_deleted_kernel_suppresses_no_spill_of_a_new_one(tmp_path: Path) -> None:
    """`solve` goes, and another kernel that spills as it did comes: one name alone does not make it known."""
    new = tmp_path / "new.log"
    new.write_text(read_text(HEAD).replace("solve", "solve_fast"))
    result = run("diff", HEAD, new, "--fail-on", "error")
    assert result.returncode == 1
    text = " ".join(result.stdout.decode().split())
    assert f"error [spill] {new}:27: is new and spills 868 B stores, 884 B loads" in text


def test_another_set_of_features_of_an_arch_is_compared(tmp_path: Path) -> None:
    new = tmp_path / "new.log"
    new.write_text(read_text(HEAD).replace("'sm_90'", "'sm_90a'"))
    value = document("diff", BASE, new, "--launch", "*=256")
    assert {change["state"] for change in value["changes"]} == {"changed"}
    assert {(change["before"]["arch"], change["after"]["arch"]) for change in value["changes"]} == {("sm_90", "sm_90a")}
    assert {finding["rule"] for finding in value["findings"]} >= {"spill", "blocks-lost"}
    assert status(BASE, new, "--fail-on", "error") == 1
    assert status(HEAD, new, "--fail-on", "error") == 0


def test_builds_of_different_archs_are_undecided() -> None:
    old, new = (FIXTURES / "ptxas" / f"plain-{release}.log" for release in ("11.8", "12.9"))
    base = run("scan", old, "--arch", "sm_80", "-f", "json").stdout
    result = run(
        "diff", "-", new, "--arch", "sm_80", "--arch", "sm_120", "--kernel", "saxpy", "--fail-on", "error", stdin=base
    )
    assert result.returncode == 0
    head = run("scan", new, "--arch", "sm_120", "-f", "json").stdout
    result = run("diff", old, "-", "--arch", "sm_80", "--arch", "sm_120", "--fail-on", "error", stdin=head)
    assert result.returncode == 2
    assert b"no arch in common (older: sm_80; newer: sm_120)" in result.stdout + result.stderr
    assert b"--by arch" in result.stdout


def test_machine_code_of_one_side_is_undecided_if_warnings_count() -> None:
    base, head = scan([BASE]), scan([HEAD, HEAD.with_name("head.sass.zst")])
    found = comparison(base, head)
    everything = (*found.changes, *found.unsettled)
    undecided = check_changes(everything, Policy()).undecided
    assert not any(at_least(each.severity, "error") for each in undecided)
    names = {each.kernel.key.symbol for each in undecided}
    assert names == {"solve", "relax", "pick", "count"}, "sums and stage use no local memory now"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((HEAD,), b"a diff needs two builds"),
        ((HEAD, "--by", "arch", "--fail-on", "error"), b"--fail-on does not apply to the table of --by arch"),
        ((BASE, HEAD, "--why", "--fail-on", "error"), b"--fail-on does not apply to --why"),
        ((BASE, HEAD, "--metric", "registers"), b"--by arch"),
        ((BASE, HEAD, HEAD), b"two builds, not 3; pass BASE and HEAD"),
        ((BASE, HEAD, "--device", "H900"), b"unknown device"),
        ((BASE, HEAD, "--device", "A100"), b"no kernel runs on A100"),
        ((BASE, HEAD, "--by", "arch", "--device", "H100"), b"--device"),
        ((BASE, HEAD, "--kernel", "no_such"), b"no kernel matches"),
    ],
)
def test_wrong_calls_are_one_clear_line(arguments: tuple[str | Path, ...], why: bytes) -> None:
    result = run("diff", *arguments)
    assert result.returncode == 2
    assert why in result.stdout + result.stderr
    assert result.stderr.count(b"\n") == 1


def documented() -> str:
    """``docs/diff.md`` with what the command prints now."""
    return test_readme.EXAMPLE.sub(
        lambda match: f"```console\n$ {match[1]}\n{test_readme.printed(match[1])}```",
        DOCUMENT.read_text(encoding="utf-8"),
    )


def test_the_document_shows_the_commands_output() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == documented()


def write() -> None:
    """Put the command's present output into ``golden/`` and ``docs/diff.md``."""
    DOCUMENT.write_text(documented(), encoding="utf-8")
    for name, call in CALLS.items():
        for width in WIDTHS:
            (GOLDEN / f"diff-{name}-{width}.txt").write_text(printed(call, width), encoding="utf-8")


if __name__ == "__main__":
    write()


def test_an_ambiguous_same_named_kernel_may_have_had_them() -> None:
    """Two kernels of one key: 48 registers before, of the other nothing is known; 64 now, and of the other nothing."""
    known = kernel("k", registers=48)
    unknown = replace(kernel("k"), usage=replace(known.usage, registers=None), confidence="ambiguous", reasons=("x",))
    more = replace(known, usage=replace(known.usage, registers=64))
    found = comparison(Build(kernels=(known, unknown)), Build(kernels=(more, unknown)))
    assert not found.changes
    assert {change.state for change in found.unsettled} == {"unknown"}
    (sure,) = comparison(Build(kernels=(known,)), Build(kernels=(more,))).changes
    assert sure.state == "changed"


@pytest.mark.parametrize(
    ("before", "after", "shown", "kept"),
    [
        ({"scale": 8, "gone": 512}, {"scale": 8}, (520, 8), 0),  # what went with a kernel is no gain
        ({"scale": 8, "gone": 512}, {"scale": 4}, (520, 4), -4),
        ({"scale": 8}, {"scale": 4, "new": 16}, (8, 20), -4),
        ({"scale": 8, "gone": 512}, {"scale": 12}, (520, 12), 4),
    ],
)
def test_sums_show_the_growth_of_kernels_in_both_builds(
    before: dict[str, int], after: dict[str, int], shown: tuple[int, int], kept: int
) -> None:
    base, head = (Build(kernels=tuple(kernel(*each) for each in side.items())) for side in (before, after))
    found = {each.name: each for each in totals(base.kernels, diff(base, head))}["spill_store_bytes"]
    assert ((found.before, found.after), found.kept) == (shown, kept)
