"""Families in text: what is shown of builds with more kernels and findings than rows."""

from __future__ import annotations

import json
import re
from operator import itemgetter
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan.model import Kernel
from spillscan.naming import Names
from spillscan.output.terminal import Style
from spillscan.reports.differences import entries
from spillscan.reports.groups import grouped
from spillscan.reports.report import Report
from spillscan.reports.table import Column, Table
from tests.reporting import kernel, rendered, report_of


def instances() -> list[Kernel]:
    """40 instances of one template on two archs, of which six spill, and a function that does not."""
    found = [
        kernel(f"void ns::gemm<{size}, float>(float*)", spills=size if size > 37 else 0, registers=64, arch=arch)
        for size in range(40)
        for arch in ("sm_80", "sm_90")
    ]
    return [*found, kernel("void rotate(int*)", registers=16)]


def test_the_worst_family_first_with_its_worst_instances() -> None:
    lines = rendered("text", report_of("scan", instances()), Style(width=100)).splitlines()
    assert "ns::gemm: 4 of 80 spilling, 308 B" in lines
    at = lines.index("ns::gemm: 4 of 80 spilling, 308 B")
    assert [line.split()[:3] for line in lines[at + 1 : at + 4]] == [
        ["<39,", "float>", "sm_80,"],
        ["<38,", "float>", "sm_80,"],
        ["rotate", "sm_90", "16"],
    ], "archs whose figures agree stand on one row"


def test_no_number_of_a_title_is_cut() -> None:
    framed = replace(kernel("k").usage, stack_bytes=16)
    kernels = [kernel(f"void {'name_' * 8}<{at}>()", usage=framed) for at in range(1100)]
    (group,) = grouped(kernels, "family", Names(each.named_by for each in kernels))
    assert group.title == f"{'name_' * 8}: 1,100 kernels, 0 spilling, 1,100 with other local memory"
    called = [replace(each, role="function") for each in kernels]
    (functions,) = grouped(called, "family", Names(each.named_by for each in called))
    assert ": 1,100 device functions, 0 spilling" in functions.title


def test_what_fits_is_shown_kernel_by_kernel() -> None:
    lines = rendered("text", report_of("scan", instances()), Style(width=100, rows=None)).splitlines()
    assert sum(line.startswith("ns::gemm<") and "sm_80, 90 " in line for line in lines) == 40


def test_findings_of_a_family_are_one_line() -> None:
    report = report_of("check", instances())
    assert len(report.findings) == 4
    lines = rendered("text", report, Style(rows=2)).splitlines()
    assert lines[0] == (
        "build.log:7: error: ns::gemm<39, float> (sm_80) spills 39 B stores, 39 B loads [spill] (+3 of ns::gemm)"
    )
    assert sum(": error: " in line for line in lines) == 1
    assert sum(": error: " in line for line in rendered("text", report, Style(rows=4)).splitlines()) == 4


def test_findings_of_a_family_are_one_row_of_a_comment() -> None:
    text = rendered("markdown", report_of("check", instances()))
    row = "| `ns::gemm<39, float>` | `sm_80, 90` | spills 39 B stores, 39 B loads `spill` | `build.log:7` |"
    assert row in text.splitlines()
    assert "| `ns::gemm<38, float>` | `sm_80, 90` |" in text
    assert text.startswith("### ❌ spillscan: 4 findings in 4 kernels")


def test_a_template_that_got_worse_is_one_family_of_a_diff() -> None:
    quiet = {"spill_store_bytes": 0, "spill_load_bytes": 0, "registers": 40}
    base = [replace(each, usage=replace(each.usage, **quiet)) for each in instances()]
    lines = rendered("text", report_of("diff", instances(), base), Style(width=100, rows=8)).splitlines()
    assert lines[1] == "ns::gemm: 4 errors, 80 warnings; spills 4↑ +308 B; registers 80↑; 80 changed"
    assert lines[2].split()[:6] == ["<39,", "float>", "sm_80,", "90", "spill", "stores"]
    assert lines[5] == "  error [spill] build.log:7"
    assert lines[6].startswith("  warning [register-growth] build.log:7: 40 → 64 allocated; registers allow fewer")
    assert lines[8].split() == ["rotate", "sm_90", "registers", "40", "→", "16", "(-24)"]
    assert "… 78 more changes, 2 errors, 78 warnings among them (--all shows them)" in lines
    assert lines[-1] == "4 errors, 80 warnings"
    text = rendered("markdown", report_of("diff", instances(), base))
    assert "| **`ns::gemm`: 4 errors, 80 warnings; spills 4↑ `+308` B; registers 80↑; 80 changed** |  |" in text
    assert "| `<39, float>` | `sm_80, 90` | spill stores | 0 → 39 B (+39) |" in text
    assert "… 74 more changes, 74 warnings among them (-f json has all)" in text


def test_results_and_cases_of_a_family_stand_together() -> None:
    report = report_of("check", instances())
    results = json.loads(rendered("sarif", report))["runs"][0]["results"]
    assert {each["properties"]["family"] for each in results} == {"ns::gemm"}
    cases = re.findall(r'<testcase classname="spillscan.sm_90" name="([\w:]+)', rendered("junit", report))
    assert cases == ["ns::gemm"] * 40 + ["rotate"]


def test_findings_and_changes_are_grouped_as_asked() -> None:
    quiet = {"spill_store_bytes": 0, "spill_load_bytes": 0, "registers": 40}
    base = [replace(each, usage=replace(each.usage, **quiet)) for each in instances()]
    check, diff = report_of("check", instances()), report_of("diff", instances(), base)

    def lines(report: Report, rows: int | None = None, **how: Any) -> list[str]:
        return rendered("text", replace(report, **how), Style(width=100, rows=rows)).splitlines()

    def errors(by: str) -> list[str]:
        return [line for line in lines(check, by=by) if ": error: " in line]

    assert len(errors("kernel")) == 2
    assert [line.partition("[spill] ")[2] for line in errors("arch")] == ["(+1 of sm_80)", "(+1 of sm_90)"]
    assert [line.partition("[spill] ")[2] for line in errors("family")] == ["(+3 of ns::gemm)"]
    assert len([line for line in lines(check) if ": error: " in line]) == 4
    assert lines(diff, by="family")[1] == "ns::gemm: 4 errors, 80 warnings; spills 4↑ +308 B; registers 80↑; 80 changed"
    assert not any(line.startswith("ns::gemm:") for line in lines(diff))
    assert not any(line.startswith("rotate:") for line in lines(diff, by="family")), "it is the only one of its family"
    (title,) = [line for line in lines(diff, by="file") if line.startswith("build.log:")]
    assert title == "build.log: 4 errors, 80 warnings; spills 4↑ +308 B; registers 80↑ 1↓; 81 changed"
    assert "| **`ns::gemm`: 4 errors, 80 warnings" in rendered("markdown", replace(diff, by="family"))


def test_changes_in_the_order_of_a_value() -> None:
    quiet = {"spill_store_bytes": 0, "spill_load_bytes": 0, "registers": 40}
    base = [replace(each, usage=replace(each.usage, **quiet)) for each in instances()]
    report = report_of("diff", instances(), base)
    for name in ("registers", "spill_store_bytes"):
        grown = [
            max(
                sum(after - before for metric, before, after in change.metrics if metric == name)
                for change in entry.changes
            )
            for entry in entries(replace(report, sort=name))
        ]
        assert grown == sorted(grown, reverse=True)
        assert grown[0] > grown[-1]


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize(("final", "said"), [(False, True), (True, False)])
def test_a_note_on_the_build_begins_its_own_line(final: bool, said: bool, width: int) -> None:
    report = report_of("scan", [kernel("scale", final=final)])
    lines = rendered("text", report, Style(width=width)).splitlines()
    assert any(line.startswith("* relocatable code:") for line in lines) is said


def test_words_are_cut_before_a_table_is_too_wide_and_what_says_nothing_is_no_column() -> None:
    named = {"kernel": "k" * 50, "first build": "nightly-2026-03-01-of-a-branch (01234567)", "what": "w" * 60}
    columns = [Column(head, head, itemgetter(head), left=True) for head in named]
    columns += [Column(head, head, itemgetter(head), spare=head != "after") for head in ("after", "holds", "with")]
    table = Table(columns=columns, rows=[{**named, "after": 599_724, "holds": "yes", "with": ""}], title="t " * 60)
    assert "with" not in table.heads
    lines = list(table.text(Style(width=80)))
    assert max(map(len, lines)) <= 80
    assert "599,724" in lines[3], "figures stay whole"
    assert lines[-1] == "hidden columns: holds"
