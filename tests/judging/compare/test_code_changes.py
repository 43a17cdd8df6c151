"""Machine code of real cubins compared: verdicts, reasons, and what a gate makes of them."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.judging.compare.code_changes import _hunks, code_changes
from spillscan.judging.compare.pairing import comparison
from spillscan.model import Build, Change, Kernel
from spillscan.model.code import CodeText
from spillscan.model.usage import LaunchBounds
from spillscan.output.terminal import Style
from spillscan.reading.binary import instructions
from spillscan.reading.binary.fetch import texts_of
from spillscan.reports.formats import text
from spillscan.reports.report import Report
from tests.conftest import FIXTURES, run

OLD, NEW = (FIXTURES / "binary" / f"sass-sm_80-{release}.cubin.zst" for release in ("12.3", "13.5"))
"""One source, two toolkits."""


def build(path: Path) -> Build:
    return scan(str(path))


def one(path: Path, name: str) -> Kernel:
    return next(each for each in build(path).kernels if each.key.symbol == name)


def lines(base: Build, head: Build) -> list[str]:
    found = comparison(base, head)
    report = Report(kind="diff", base=base, build=head, changes=found.changes, recoded=found.recoded)
    return "".join(text.render(report, Style(width=100))).splitlines()


def test_other_code_of_equal_values_is_a_third_state() -> None:
    new = build(NEW)
    first, *rest = new.kernels
    assert first.sass is not None
    other = replace(new, kernels=(replace(first, sass=replace(first.sass, digest="0" * 16)), *rest))
    found = comparison(new, other)
    assert not found.changes
    assert [(each.state, each.kernel.key.symbol, each.differs) for each in found.recoded] == [
        ("recoded", first.key.symbol, False)
    ]
    assert "different code in 1 of those with the same metrics (--with code)" in lines(new, other)
    assert not comparison(new, new).recoded
    nameless = replace(first, key=replace(first.key, symbol=""))
    assert "same metrics in 0 kernels" in lines(Build(kernels=(nameless,)), Build(kernels=(nameless,)))


def test_both_toolkits_head_the_comparison_and_moved_kernels_are_one_group() -> None:
    old, new = build(OLD), build(NEW)
    assert lines(old, new)[0] == "toolkit: 12.3 → 13.5.37"
    assert not any(line.startswith("toolkit") for line in lines(new, new))
    grown = replace(new, kernels=tuple(_with(each, registers=(each.usage.registers or 0) + 8) for each in new.kernels))
    assert "changed kernels compiled by another toolkit: 6" in lines(old, grown)
    assert not any("another toolkit" in line for line in lines(new, grown))


def _with(kernel: Kernel, **figures: int) -> Kernel:
    return replace(kernel, usage=replace(kernel.usage, **figures))


def test_launch_bounds_that_changed_are_a_change() -> None:
    old = one(NEW, "plain")
    new = replace(old, launch_bounds=LaunchBounds(max_threads=512))
    old = replace(old, launch_bounds=LaunchBounds(max_threads=128))
    (change,) = comparison(Build(kernels=(old,)), Build(kernels=(new,))).changes
    assert (change.state, change.bounds, change.metrics) == ("changed", (128, 512), ())
    shown = lines(Build(kernels=(old,)), Build(kernels=(new,)))
    assert any("launch bounds  128 threads → 512 threads" in line for line in shown)
    assert "1 changed, 0 added, 0 removed, 0 with the same metrics" in shown


def verdicts(base: Build, head: Build, texts: dict[int, CodeText] | None = None) -> dict[str, str]:
    found = comparison(base, head, all_pairs=True)
    pairs = (*found.changes, *found.recoded, *found.unsettled, *found.equal)
    if texts is None:
        texts = texts_of(side for each in pairs for side in (each.before, each.after) if side is not None)
    return {each.change.kernel.key.symbol: each.verdict for each in code_changes(pairs, texts)}


def test_each_kernel_has_a_verdict() -> None:
    assert set(verdicts(build(NEW), build(NEW)).values()) == {"identical"}
    assert set(verdicts(build(NEW), build(NEW), {}).values()) == {"not compared"}
    assert "differs" in verdicts(build(OLD), build(NEW)).values()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"references": ((16, "2 f+0x0 #1"),)}, "differs"),
        ({"data": (("launch bounds", "64×1×1"),)}, "differs"),
        ({"data": (("attribute 0x7f", "01"),)}, "differs"),
        ({"unknown": "external symbol f"}, "not compared"),
        ({"unknown": "instructions of sm_61 are not decoded"}, "not compared"),
        ({"lines": ()}, "identical"),
    ],
)
def test_referenced_objects_count(change: dict[str, Any], expected: str) -> None:
    """Each attribute is missing on one side in the third row, so that a known one differs."""
    kernel = one(NEW, "plain")
    other = replace(kernel, key=kernel.key)
    text = texts_of([kernel])[id(kernel)]
    texts = {id(kernel): text, id(other): replace(text, **change)}
    changed = Change(state="equal", before=kernel, after=other)
    (found,) = code_changes([changed], texts)
    assert found.verdict == expected


def test_an_attribute_of_unknown_meaning_is_not_compared() -> None:
    kernel = one(NEW, "plain")
    other = replace(kernel, key=kernel.key)
    text = texts_of([kernel])[id(kernel)]
    texts = {id(kernel): text, id(other): replace(text, data=(*text.data, ("attribute 0x7f", "01")))}
    (found,) = code_changes([Change(state="equal", before=kernel, after=other)], texts)
    assert (found.verdict, found.reasons) == ("not compared", ("attribute 0x7f none → 01 (meaning unknown)",))


def test_named_barriers_compare_across_cubin_layouts() -> None:
    """CUDA 12 has them in section flags, CUDA 13 in an attribute that is absent for none."""
    old, new = (FIXTURES / "binary" / f"textures-sm_80-{release}.cubin" for release in ("12.4", "13.5"))
    (found,) = json.loads(run("diff", "--with", "code", "-f", "json", old, new).stdout)["code"]
    assert found["reasons"] == ["attribute 0x5f none → 0 (meaning unknown)"]


def test_a_difference_names_its_place() -> None:
    roles = [FIXTURES / "binary" / f"roles-{name}-sm_90a-13.5.cubin.zst" for name in ("dropped", "kept")]
    found = run("diff", "--with", "code-text", *roles, "-f", "json")
    document: dict[str, Any] = json.loads(found.stdout)
    worst = next(each for each in document["code"] if each["verdict"] == "differs")
    assert worst["text"][0].startswith("@@ -")
    assert [hunk["place"] for hunk in worst["hunks"]] == [""], "compiled without -lineinfo"


def test_lines_that_only_moved_are_no_places_that_differ() -> None:
    build_ = build(FIXTURES / "binary" / "lines-sm_80-13.5.cubin.zst")
    kernel = max((each for each in build_.kernels if each.sass), key=lambda each: each.sass.instructions)  # type: ignore[union-attr]
    old = texts_of([kernel])[id(kernel)]
    new = replace(old, lines=tuple((row, file, line + 100 * (line > 0)) for row, file, line in old.lines))
    assert len({line for _, _, line in old.lines}) > 5
    assert not _hunks((instructions.Code(old), instructions.Code(new)))
    words = bytearray(zlib.decompress(old.words))
    row = next(row for row in range(0, len(words), 16) if words[row + 1] & 0x0E == 0x08 and words[row] == 0x10)  # IADD3
    words[row + 4] ^= 1
    other = replace(new, words=zlib.compress(bytes(words)))
    (hunk,) = _hunks((instructions.Code(old), instructions.Code(other)))
    assert (hunk.opcodes, hunk.altered) == ((), (("IADD3", 1),))


def test_snapshots_that_keep_the_code_need_no_binaries(tmp_path: Path) -> None:
    for name, path in (("old", OLD), ("new", NEW)):
        (tmp_path / f"{name}.json").write_bytes(
            run("scan", "--with", "code", "-f", "json", path).stdout.replace(b"sass-sm", b"no")
        )
    kept = run("diff", "--with", "code", "-f", "json", tmp_path / "old.json", tmp_path / "new.json").stdout
    read = run("diff", "--with", "code", "-f", "json", OLD, NEW).stdout
    assert json.loads(kept)["code"] == json.loads(read)["code"]


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (("--with", "code"), 0),
        (("--fail-on", "code"), 1),
        (("--with", "code", "--fail-on", "error"), 0),
    ],
)
def test_a_gate_fails_by_code_only_if_asked_to(options: tuple[str, ...], status: int) -> None:
    assert run("diff", *options, OLD, NEW).returncode == status


def test_a_policy_selects_kernels_with_fixed_code(tmp_path: Path) -> None:
    policy = tmp_path / "spillscan.yaml"
    for match, status in (("nothing", 0), ("calls", 1)):
        policy.write_text(f"kernels:\n- match: {match}\n  severity: {{other-code: error}}\n")
        assert run("diff", "--config", policy, "--fail-on", "policy", OLD, NEW).returncode == status


def test_code_that_no_input_shows_is_a_gap(tmp_path: Path) -> None:
    log = FIXTURES / "effects" / "head.log"
    (again := tmp_path / "again.log").write_bytes(log.read_bytes() + b"\n")
    found = run("diff", "--fail-on", "code", log, again)
    assert found.returncode == 2
    assert b"6 kernels (sums, stage, count, pick, relax, solve): machine code not compared" in found.stdout
    assert run("diff", "--fail-on", "policy", log, again).returncode == 0


def test_notes_reach_every_report() -> None:
    sarif = json.loads(run("diff", "--with", "code", "-f", "sarif", OLD, NEW).stdout)
    results = [each for each in sarif["runs"][0]["results"] if each["ruleId"] == "other-code"]
    assert {each["level"] for each in results} == {"note"}
    markdown = run("diff", "--with", "code", "-f", "markdown", OLD, NEW).stdout.decode()
    assert "<details><summary>code of " in markdown
    assert len(markdown) < 65_536
    assert '"became":{' in run("diff", "--with", "code", "-f", "html", OLD, NEW).stdout.decode()
