"""Families in text: builds with more kernels and findings than rows.

``python -m tests.reports.test_families`` writes the transcript.
"""

from __future__ import annotations

import json
import re
from operator import itemgetter
from pathlib import Path

from msgspec.structs import replace

from spillscan.model import Kernel
from spillscan.naming import Names
from spillscan.output.terminal import Style
from spillscan.reports.differences import entries
from spillscan.reports.groups import grouped
from spillscan.reports.table import Column, Table
from tests.reporting import kernel, rendered, report_of


def instances() -> list[Kernel]:
    """40 instances of one template on two archs, six of which spill, and a function that does not."""
    found = [
        kernel(f"void ns::gemm<{size}, float>(float*)", spills=size if size > 37 else 0, registers=64, arch=arch)
        for size in range(40)
        for arch in ("sm_80", "sm_90")
    ]
    return [*found, kernel("void rotate(int*)", registers=16)]


def of_many_archs() -> list[Kernel]:
    """One kernel on more archs than a line has room for."""
    archs = (50, 60, 70, 75, 80, 86, 89, 90, 100, 120)
    return [kernel("scale", spills=8 * (arch == 90), arch=f"sm_{arch}") for arch in archs]


def older() -> list[Kernel]:
    """The same before they spilled."""
    quiet = {"spill_store_bytes": 0, "spill_load_bytes": 0, "registers": 40}
    return [replace(each, usage=replace(each.usage, **quiet)) for each in instances()]


def wide() -> str:
    """Table of long words, with one empty column."""
    named = {"kernel": "k" * 50, "first build": "nightly-2026-03-01-of-a-branch (01234567)", "what": "w" * 60}
    columns = [Column(head, head, itemgetter(head), left=True) for head in named]
    columns += [Column(head, head, itemgetter(head), spare=head != "after") for head in ("after", "holds", "with")]
    columns += [Column("why", "why", itemgetter("why"), spare=-1)]
    row = {**named, "after": 599_724, "holds": "yes", "with": "", "why": "register limit 128 → 64"}
    table = Table(columns=columns, rows=[row], title="t " * 60)
    return "\n".join(table.text(Style(width=80)))


def printed() -> str:
    """Each report under its title."""
    scan, check = report_of("scan", instances()), report_of("check", instances())
    diff = report_of("diff", instances(), older())
    texts = {
        "scan": rendered("text", scan, Style(width=100)),
        "scan, 1 row": rendered("text", scan, Style(width=100, rows=1)),
        "scan, all rows": rendered("text", scan, Style(width=100, rows=None)),
        "scan, relocatable": rendered("text", report_of("scan", [kernel("scale", final=False)]), Style(width=80)),
        "check, 2 rows": rendered("text", check, Style(rows=2)),
        "check, many archs": rendered("text", report_of("check", of_many_archs()), Style(width=80)),
        "check, 4 rows": rendered("text", check, Style(rows=4)),
        "check, Markdown": rendered("markdown", check),
        "diff, 8 rows": rendered("text", diff, Style(width=100, rows=8)),
        "diff, Markdown": rendered("markdown", diff),
        "diff by family, Markdown": rendered("markdown", replace(diff, by="family")),
        "a wide table": wide(),
    }
    for by in ("kernel", "arch", "family"):
        texts[f"check by {by}"] = rendered("text", replace(check, by=by), Style(width=100, rows=None))
    for by in ("family", "file"):
        texts[f"diff by {by}"] = rendered("text", replace(diff, by=by), Style(width=100, rows=9))
    return "\n".join(f"==== {title}\n{text}" for title, text in texts.items())


TRANSCRIPT = Path(__file__).with_suffix(".txt")


def test_reports_of_families() -> None:
    assert printed() == TRANSCRIPT.read_text(encoding="utf-8")


def test_no_number_of_a_title_is_cut() -> None:
    framed = replace(kernel("k").usage, stack_bytes=16)
    kernels = [kernel(f"void {'name_' * 8}<{at}>()", usage=framed) for at in range(1100)]
    (group,) = grouped(kernels, "family", Names(each.named_by for each in kernels))
    assert group.title == f"{'name_' * 8}: 1,100 kernels, 0 spilling, 1,100 with other local memory"
    called = [replace(each, role="function") for each in kernels]
    (functions,) = grouped(called, "family", Names(each.named_by for each in called))
    assert ": 1,100 device functions, 0 spilling" in functions.title


def test_only_bounds_in_the_table_are_explained() -> None:
    assert "≤" not in rendered("text", report_of("scan", [kernel("f", role="function")]))


def test_results_and_cases_of_a_family_are_together() -> None:
    report = report_of("check", instances())
    results = json.loads(rendered("sarif", report))["runs"][0]["results"]
    assert {each["properties"]["family"] for each in results} == {"ns::gemm"}
    cases = re.findall(r'<testcase classname="spillscan.sm_90" name="([\w:]+)', rendered("junit", report))
    assert cases == ["ns::gemm"] * 40 + ["rotate"]


def test_changes_in_the_order_of_a_value() -> None:
    report = report_of("diff", instances(), older())
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


if __name__ == "__main__":
    TRANSCRIPT.write_text(printed(), encoding="utf-8")
