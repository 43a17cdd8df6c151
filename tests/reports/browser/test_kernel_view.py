"""The view of one kernel: its residency, its launch where it is known, its local memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spillscan import scan
from spillscan.model import Build, Kernel, KernelKey, Launch, Usage
from spillscan.model.build import damage
from spillscan.naming import alone
from spillscan.occupancy.launches import LaunchMap
from spillscan.reports.page.columns import identifiers
from spillscan.reports.report import Report
from tests import pictures
from tests.conftest import FIXTURES
from tests.reporting import rendered
from tests.reports.browser.conftest import BOXES, DRAWN, PHONE, SIZES, Open, Site, Tab, serious, until

DUMP = FIXTURES / "sass" / "nvdisasm-gi-sm_80-13.5.sass"
UNKNOWN = Kernel(key=KernelKey(symbol="silent", arch="sm_90"), role="entry", usage=Usage(spill_store_bytes=8))


@pytest.fixture(scope="module")
def build() -> Build:
    logged, dumped = scan([str(FIXTURES / "demo" / "head.log")]), scan([str(DUMP)])
    return Build(kernels=(*logged.kernels, *dumped.kernels, UNKNOWN))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, build: Build) -> dict[str, Path]:
    """The same build, once without a word on its launches."""
    folder = tmp_path_factory.mktemp("kernel-view")
    launches = LaunchMap((("*", Launch(threads_per_block=256, source="policy")),))
    reports = {
        "open": Report(kind="scan", build=build),
        "launched": Report(kind="scan", build=build, launches=launches),
    }
    for name, report in reports.items():
        (folder / f"{name}.html").write_text(rendered("html", report), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in reports}


def address(build: Build, name: str, arch: str) -> str:
    kernels = sorted(build.kernels, key=damage)
    found = next(each for each in kernels if alone(each.key.symbol).startswith(name) and each.key.arch == arch)
    return f"#/kernel/{identifiers(kernels)[kernels.index(found)]}"


def test_a_known_launch_has_its_limits(browse: Open, build: Build, files: dict[str, Path]) -> None:
    tab = browse(files["launched"], address(build, "model::gemm<8>", "sm_80"))
    assert "4 blocks/SM, 32 of 64 warps, occupancy 50%, limited by registers" in tab.text(".residency")
    assert tab.text(".limits .limiter") == "registers 4 ← limiter"
    assert tab.page.locator(".notice").count() == 0


def test_an_unknown_launch_is_an_upper_bound(browse: Open, build: Build, files: dict[str, Path]) -> None:
    tab = browse(files["open"], address(build, "model::gemm<8>", "sm_80"))
    assert "Block size unknown" in tab.text(".notice")
    assert "1 block/SM" in tab.text(".residency")


def test_without_registers_no_residency_is_invented(browse: Open, build: Build, files: dict[str, Path]) -> None:
    tab = browse(files["open"], address(build, "silent", "sm_90"))
    assert "no registers in the input" in tab.text(".unknown")


def test_the_strip_tells_classes_loops_and_lines(browse: Open, build: Build, files: dict[str, Path]) -> None:
    tab = browse(files["open"], address(build, "array_and_spills", "sm_80"))
    tab.page.wait_for_selector(".strip")
    shown = {kind: tab.page.locator(f".strip .mark.{kind}").count() for kind in ("store", "load", "array", "frame")}
    assert shown == {"store": 40, "load": 40, "array": 21, "frame": 0}
    titles = tab.page.locator(".strip .mark title").all_text_contents()
    assert "spill store at 0x0370, R1+0x40, outside of loops, sass.cu:32" in titles
    assert "40 stores (160 B), 40 loads (160 B)" in (tab.page.locator(".strip").get_attribute("aria-label") or "")
    assert tab.texts(".spillmap ol li")[0] == "sass.cu:36 81%"


OPTIONS = pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"viewport": PHONE}], ids=["dark", "phone"])


def opened(browse: Open, build: Build, file: Path, options: dict[str, Any]) -> Tab:
    """The kernel with the most to tell, and all that can be unfolded."""
    tab: Tab = browse(file, address(build, "array_and_spills", "sm_80"), **options)
    tab.page.wait_for_selector(".strip")
    for summary in tab.page.locator("summary").all():
        summary.click()
    return tab


@OPTIONS
def test_a_kernel_fits_the_screen(browse: Open, build: Build, files: dict[str, Path], options: dict[str, Any]) -> None:
    tab = opened(browse, build, files["launched"], options)
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.oracle
@OPTIONS
def test_axe_finds_nothing_serious_in_a_kernel(
    browse: Open, build: Build, files: dict[str, Path], axe: str, options: dict[str, Any]
) -> None:
    tab = opened(browse, build, files["launched"], options)
    tab.page.evaluate(axe)
    assert serious(tab.page) == []


# ---- machine code ----------------------------------------------------------------------------------------------------


def test_the_first_fix_leads_to_curve_lines_and_code(browse: Open, site: Site) -> None:
    tab = browse(site["code"])
    assert tab.text("#first") == "First fixes"
    assert tab.text(".first .who").startswith("array_and_spills sm_80 · spills 160 B stores, 160 B loads")
    assert tab.texts(".first dt")[:3] == ["lines", "cause", "try"]
    tab.page.locator(".first a").first.click()
    assert "registers are live at once" in tab.text(".spillmap > p")
    assert "Try: __maxnreg__(48); --launch shows its cost in blocks/SM (not tried)." in tab.text(".spillmap > p")
    assert tab.page.locator(".strip .live").count() == tab.page.locator(".strip .allocated").count() == 1
    assert tab.page.locator(".strip .mark").count() > 20, "loops, spills and registers are one picture"
    source, code = (tab.page.get_by_label(each, exact=True) for each in ("Source lines", "Machine code"))
    until(tab.page, "document.querySelectorAll('.sidebyside .chosen').length === 2")
    assert tab.text(".sidebyside .chosen") == "36 81% 30 19/21 int line_36; // <b>&amp;"
    assert "19 spill stores and 21 reloads at loop depth up to 1, at most 30 registers live" in tab.text(".status")
    relief = "use a smaller #pragma unroll factor or array at /opt/project/sass.cu:32: saves at most 44 registers"
    assert relief in tab.text(".status"), "what advise says of the line"
    kin = code.locator(".row.kin .cell-code").all_text_contents()
    assert any(text.startswith("LDL") for text in kin), "the heaviest line is shown at its spills"
    code.locator(".row", has_text="0x08c0").click()
    assert tab.page.url.endswith("?at=0x08c0")
    tab.page.reload()
    until(tab.page, "document.querySelectorAll('.sidebyside .chosen').length === 2")
    assert tab.texts(".sidebyside .chosen .cell-address") == ["0x08c0"]
    source.focus()
    for key in ("ArrowDown", "Enter"):
        tab.page.keyboard.press(key)
    assert tab.page.url.endswith("?line=sass.cu%3A37")
    assert tab.text(".status").startswith("sass.cu:37: ")
    tab.page.locator(".slots summary").click()
    tab.page.locator(".slots button").first.click()
    assert re.search(r"\?open=slots&at=0x[0-9a-f]{4}$", tab.page.url)
    tab.page.get_by_text("What spill means").click()
    assert "What to do." in tab.text(".explained")


@pytest.mark.oracle
def test_axe_finds_nothing_serious_in_code(browse: Open, site: Site, axe: str) -> None:
    tab = browse(site["code"])
    tab.page.evaluate(axe)
    tab.page.locator(".first a").first.click()
    tab.page.locator(".slots summary").click()
    assert serious(tab.page) == []


def test_code_fits_each_screen(browse: Open, site: Site) -> None:
    tab = browse(site["code"], viewport=PHONE)
    wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert tab.page.evaluate(wide) <= 0
    tab.page.locator(".first a").first.click()
    tab.text(".strip")
    assert tab.page.evaluate(wide) <= 0
    for screen in SIZES:
        tab.page.set_viewport_size(screen)
        tab.page.evaluate(DRAWN)
        assert tab.page.evaluate(BOXES) == [], screen


def test_the_readmes_picture_is_current(browse: Open, tmp_path: Path) -> None:
    tab = browse(pictures.page(tmp_path), viewport={"width": 1200, "height": 760})
    assert pictures.open_kernel(tab.page) == pictures.SHOWN.read_text("utf-8")
