"""Contents of a page: metrics of the report, full names, the same bytes each time, and a small file."""

from __future__ import annotations

import base64
import json
import math
import zlib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan.model import Build, Kernel, KernelKey, LaunchBounds, Origin, Stats, Usage
from spillscan.model.build import damage
from spillscan.model.code import SassStats
from spillscan.model.symbols import demangle
from spillscan.occupancy.launches import LaunchMap, parse_launch
from spillscan.occupancy.summary import summarise
from spillscan.reports.formats.html import payload
from spillscan.reports.page.columns import identifiers
from spillscan.reports.page.document import PLAIN_CHARACTERS, document, packed, text
from spillscan.reports.page.history import history_document
from spillscan.reports.report import EXPLAINED, Report
from tests.conftest import run
from tests.reporting import Document, kernel, payload_of, rendered, report_of
from tests.reports.browser.pages import build, checked, compared, many

SIZE_OF_1000 = 1_500_000


def names(full: dict[str, Any]) -> list[list[str]]:
    """Symbols and demangled names as the page's script unpacks them."""
    return full.get("plain") or [json.loads(zlib.decompress(base64.b64decode(each))) for each in full["packed"]]


def test_helpers_of_ptxas_are_no_rows() -> None:
    ours, helper = kernel("k", spills=8), kernel("__cuda_sm20_div_u64", spills=8)
    both = [ours, replace(helper, role="function")]
    assert payload(Report(kind="scan", build=Build(kernels=tuple(both))))["kernels"]["count"] == 1


def test_as_many_growths_are_explained_as_a_reader_may_want() -> None:
    def side(registers: int, threads: int) -> list[Kernel]:
        code = SassStats(instructions=1, code_bytes=16, opcodes=(("NOP", 1),))
        known = {"sass": code, "launch_bounds": LaunchBounds(required_threads=threads)}
        return [kernel(f"k{number}", registers=registers, **known) for number in range(EXPLAINED + 5)]

    report = report_of("diff", side(40, 256), side(32, 512)).extended(code={0: None})
    assert len(payload(report)["why"]) == EXPLAINED == 20


@pytest.mark.parametrize(
    "launches", [LaunchMap(), LaunchMap((parse_launch("gemm*=256"),))], ids=["unknown", "reported"]
)
def test_columns_are_the_kernels(launches: LaunchMap) -> None:
    found = build("demo/head.log")
    page = payload(Report(kind="scan", build=found, launches=launches))
    columns = page["kernels"]
    for at, each in enumerate(sorted(found.kernels, key=damage)):
        reported = summarise(each.usage, each.key.arch, launches.launch_of(each))
        assert reported.occupancy is not None
        assert names(columns["full"])[0][columns["symbol"][at]] == each.key.symbol
        assert columns["arches"][columns["arch"][at]] == each.key.arch
        assert columns["registers"][at] == each.usage.registers
        assert (columns["spill_store_bytes"][at], columns["spill_load_bytes"][at]) == each.spills
        residency, exact = page["subjects"][page["details"][at][0]], 1000 * reported.occupancy.fraction
        assert residency["share"] == (math.ceil(exact) if reported.at_most else round(exact))
        assert (residency["occupancy"], residency["limiter"]) == tuple(
            map(reported.cells.get, ("occupancy", "limiter"))
        )
        assert residency.get("assumed", False) == reported.assumed


def test_unreported_values_are_null() -> None:
    silent = Kernel(key=KernelKey(symbol="k"), role="entry", usage=Usage())
    found = payload(Report(kind="scan", build=Build(kernels=(silent,))))
    for name in ("arch", "registers", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "shared_bytes"):
        assert found["kernels"][name] == [None]
    assert found["overview"]["kernels"] == {"count": 1, "spilling": 0, "stores": 0, "loads": 0, "silent": 1}
    assert "1 kernel, 0 spilling, 1 unknown" in rendered("html", Report(kind="scan", build=Build(kernels=(silent,))))


def test_an_object_is_named_with_its_binary_if_there_are_several() -> None:
    def objects(*held: tuple[str, str, str]) -> list[str]:
        kernels = [
            kernel("k", unit=unit, origins=(Origin(input=name, format=form),), caller="k" if unit else "")
            for name, unit, form in held
        ]
        found = payload(Report(kind="scan", build=Build(kernels=tuple(kernels))))["kernels"]
        assert [found["callers"][at] for at in found["caller"]] == ["k" if unit else "" for _, unit, _ in held]
        return [found["units"][at] for at in found["unit"]]

    assert objects(("a.so", "", "binary"), ("a.so", "#1", "binary")) == ["", "#1"]
    assert objects(("a.so", "", "binary"), ("b.so", "#1", "binary")) == ["a.so", "b.so#1"]
    assert objects(("a.whl", "c.so", "binary"), ("b.whl", "c.so", "binary")) == ["a.whl:c.so", "b.whl:c.so"]
    assert objects(("a.so", "", "binary"), ("b.log", "c.o", "ptxas")) == ["", "c.o"]


def test_the_overview_counts_every_kernel_once() -> None:
    report = checked()
    reported = payload(report)["overview"]
    entries = [each for each in report.build.kernels if each.role != "function"]
    assert reported["kernels"]["count"] == len(entries)
    assert reported["kernels"]["spilling"] == sum(sum(each.spills or ()) > 0 for each in entries)
    assert reported["kernels"]["stores"] == sum((each.spills or (0, 0))[0] for each in entries)


def test_issues_are_on_the_page() -> None:
    unknown = replace(build("demo/head.log"), stats=Stats(inputs=1, lines=60, unknown_lines=3))
    assert payload(Report(kind="scan", build=unknown))["overview"]["read"]["unknown_lines"] == 3


def test_builds_of_equal_names_are_titled_by_their_paths() -> None:
    sides = [[kernel("k", origins=(Origin(input=f"/out/{each}/build.log"),))] for each in ("head", "base")]
    assert payload(report_of("diff", *sides))["title"] == "/out/base/build.log → /out/head/build.log"


def test_findings_and_changes_lead_to_their_kernels() -> None:
    report = compared()
    found = payload(report)
    assert [each["message"] for each in found["findings"]] == [finding.message for finding in report.findings]
    for each in (*found["findings"], *found["changes"]["rows"]):
        assert found["kernels"]["names"][found["kernels"]["symbol"][each["kernel"]]] == each["name"]
    assert [row["state"] for row in found["changes"]["rows"]] == [change.state for change in report.changes]
    assert [row["severity"] for row in found["changes"]["rows"]][:2] == ["error", "error"]
    assert found["changes"]["equal"] == 6


def test_identifiers_outlive_checkouts_and_are_never_shared() -> None:
    symbol = "_ZN43_GLOBAL__N__{}_7_hash_cu_5f0c0f6c1kEv"
    one, other = (kernel(symbol.format(digest)) for digest in ("01234567", "89abcdef"))
    assert identifiers([one]) == identifiers([other])
    assert len(set(identifiers([one, other, kernel("k"), kernel("k", arch="sm_80")]))) == 4


def test_full_names_come_back() -> None:
    symbols = [f"_Z{4 + len(str(at))}name{at}ILi{at}EEvv" for at in range(3000)]
    pairs = [(symbol, demangle(symbol)) for symbol in symbols]
    for some in (pairs[:10], pairs):
        full = packed(some)
        assert ("plain" in full) == (sum(len(symbol) + len(name) for symbol, name in some) <= PLAIN_CHARACTERS)
        assert names(full) == [list(texts) for texts in zip(*some, strict=True)]


def test_names_that_no_browser_could_hold_keep_head_and_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spillscan.reports.page.document.MOST_CHARACTERS", 1000)
    full = packed([("a" * 50_000 + "b" * 50_000, "")])
    assert names(full)[0][0] == "a" * 250 + "…" + "b" * 250


def test_a_page_of_a_thousand_kernels_is_small() -> None:
    assert len(rendered("html", Report(kind="scan", build=many(1000))).encode()) < SIZE_OF_1000
    arguments = "".join(f"Li{number}E" for number in range(1000, 1300))
    symbols = [f"_Z1kI4PackIJLi{at}E{arguments}EEEvT_T_T_T_T_" for at in range(250)]
    assert len(demangle(symbols[0])) > 8_000
    kernels = tuple(kernel(symbol, arch=arch) for symbol in symbols for arch in ("sm_75", "sm_80", "sm_90a", "sm_100a"))
    assert len(rendered("html", Report(kind="scan", build=Build(kernels=kernels))).encode()) < SIZE_OF_1000


def test_the_policy_matches_the_page() -> None:
    one = Document("".join(document("a", {"views": []}, ("store",))))
    other = Document("".join(document("b", {"views": [1]}, ("store", "kernels"))))
    assert one.policy != other.policy
    assert "unsafe" not in one.policy + other.policy
    assert one.policy.startswith("default-src 'none'; script-src 'sha256-")


def test_a_payload_may_come_in_pieces() -> None:
    page = "".join(document("a", {"n": 1, "rows": iter(['{"a":"</script>"}', "2"]), "none": iter(())}, ()))
    assert payload_of(page) == {"n": 1, "rows": [{"a": "</script>"}, 2], "none": []}


def test_text_is_escaped_and_printable() -> None:
    assert text('<b a="\u202e">&') == "&lt;b a=&quot;\N{REPLACEMENT CHARACTER}&quot;&gt;&amp;"
    assert len(text("x" * 99, 10)) == 10


def test_a_history_is_readable_without_javascript() -> None:
    page = "".join(history_document("nightly", {}, {}, ["gemm<8>  64"]))
    assert "<pre>gemm&lt;8&gt;  64\n</pre>" in page


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    for file in ("a.html", "b.html"):
        done = run("scan", "fixtures/demo/head.log", "-f", f"html:{tmp_path / file}")
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
