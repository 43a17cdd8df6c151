"""Pages in a real browser: what they show, how they are used by hand and keyboard, what they never do."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import unicodedata
from pathlib import Path

import pytest
from pypdf import PdfReader

from spillscan import scan
from spillscan.cli import main
from spillscan.model.build import damage
from spillscan.naming import Names
from spillscan.output.nouns import size
from spillscan.reports.sizes import SizeGroup
from spillscan.reports.sizes import page as size_page
from tests.conftest import FIXTURES, NO_SKIPS, sized
from tests.reporting import rendered
from tests.reports.browser import pages
from tests.reports.browser.conftest import (
    BOXES,
    DESKTOP,
    DRAWN,
    PHONE,
    SIZES,
    Open,
    Site,
    Tab,
    serious,
    until,
)

MIB = 1 << 20
ROWS = ".rows .row"
HREFS = "all => all.map(each => each.getAttribute('href'))"
NAMES = ".rows .cell-name a"
HOSTILE = ("hostile", "hostile-diff")
COURSES = ("history", "sweep", "size")

METRICS = ("registers", "spill_store_bytes", "spill_load_bytes")


def first_kernel(tab: Tab) -> str:
    """The address of the kernel in the first row of the table."""
    tab.go("#/table?by=none")
    return str(tab.page.locator(NAMES).first.get_attribute("href"))


def routes(name: str, tab: Tab) -> list[str]:
    """Addresses of all views of a page."""
    links = tab.page.locator(".top nav a").evaluate_all(HREFS)
    if "#/table" in links and name != "empty":
        return [*links, "#/table?by=family", first_kernel(tab)]
    return links or ["#/"]


# ---- what it shows --------------------------------------------------------------------------------------------------


def test_the_overview_tells_the_values_of_the_log(site: Site, browse: Open) -> None:
    tab = browse(site["scan"])
    assert tab.text("h1") == "2 of 12 kernels spill"
    assert "608 B stored and 432 B reloaded" in tab.text(".headline p")
    assert tab.texts(".limit-head b") == ["sm_80", "sm_90a"]
    assert tab.texts(".worst tbody tr")[0] == "model::gemm<8> sm_80 64 304 216 ≤50% registers 4, 2 spilling"
    label = tab.page.locator("svg[role=group]").first.get_attribute("aria-label") or ""
    assert label.startswith("Registers per thread against occupancy")
    tab.page.locator(".keys a", has_text="registers").first.click()
    assert tab.text(".tally") == "2 of 12 kernels"


def test_the_overview_of_a_check_leads_with_its_findings(site: Site, browse: Open) -> None:
    tab = browse(site["check"])
    report = pages.checked()
    errors = sum(finding.severity == "error" for finding in report.findings)
    assert tab.text("#findings").startswith(f"{errors} errors")
    families = {(each.rule, each.severity, report.names.base(each.kernel.named_by)) for each in report.findings}
    assert tab.page.locator("section:has(#findings) > .findings > li").count() == min(6, len(families))
    tab.page.locator("section:has(#findings) li summary").first.click()
    tab.page.locator("section:has(#findings) details li").first.wait_for()  # drawn when the browser reports it as open


def test_the_page_of_a_build_without_kernels_says_so(site: Site, browse: Open) -> None:
    assert browse(site["empty"]).text("h1") == "The input contains no kernel"
    assert browse(site["empty"], "#/table").text(ROWS) == "No kernel matches."


def test_changes_are_sorted_by_severity(site: Site, browse: Open) -> None:
    tab = browse(site["diff"])
    assert tab.text("h1") == "2 kernels regressed"
    assert tab.text(".headline p") == "2 errors · 4 notes · 4 changed · 2 added · 6 with the same metrics"
    assert tab.texts("section > h2") == ["Errors 2", "Notes 2", "Other changes 2"]
    assert "spill stores 0 → 304 B +304" in tab.text(".changes li")
    tab.page.get_by_role("radio", name="2 added").check()
    assert tab.texts(".changes .who b") == ["model::gather", "model::gather"]
    assert tab.page.url.endswith("#/changes?state=added")
    tab.page.reload()
    assert tab.texts(".changes .who b") == ["model::gather", "model::gather"]


@pytest.mark.oracle
def test_a_change_shows_its_residency_before(site: Site, browse: Open) -> None:
    tab = browse(site["renamed"])
    assert tab.text("h1") == "1 kernel regressed"
    tab.page.get_by_role("link", name="softmax_rows_fused").click()
    assert "before: 2 blocks/SM, 40 of 64 warps, occupancy 62.5%" in tab.text(".residency")
    same = browse(site["scan"], first_kernel(browse(site["scan"])))
    assert "before:" not in same.text(".residency")


def test_a_treemap_opens_group_by_group(site: Site, browse: Open) -> None:
    tab = browse(site["size"])
    areas = "() => [...document.querySelectorAll('rect')].map(r => r.width.baseVal.value * r.height.baseVal.value)"
    tab.page.wait_for_selector("rect")
    large, small = tab.page.evaluate(areas)
    assert large / small == pytest.approx(7 / 3, rel=0.01), "areas are stored bytes"
    tab.page.get_by_role("link", name="sm_90a", exact=True).click()
    until(tab.page, "() => document.querySelectorAll('tbody tr').length === 2 && location.hash === '#/size/0'")
    assert "700 B stored" in tab.page.inner_text("main")
    assert "symbols <img" in tab.page.inner_text("main")
    assert not tab.complaints


def test_a_sweep_marks_the_best(site: Site, browse: Open) -> None:
    tab = browse(site["sweep"])
    assert tab.text("h1") == "0 of 2 kernels improve with another setting", "a trade-off is not better"
    assert tab.text("tr.best") == "as is 168 0 1 best"
    assert "128, best" in tab.texts(".tradeoff .name.best")


@pytest.mark.oracle
def test_without_javascript_the_worst_are_in_the_file(site: Site, browse: Open) -> None:
    tab = browse(site["many"], java_script_enabled=False)
    shown = tab.page.inner_text("pre").splitlines()
    assert sum(line.startswith("kernel_") and "<" in line for line in shown) == 50
    assert f"{pages.MANY - 50:,} more" in tab.text("pre")
    assert "0 → 304 B" in browse(site["diff"], java_script_enabled=False).text("pre")


# ---- the table ------------------------------------------------------------------------------------------------------


def test_sort_filter_and_permalink(site: Site, browse: Open) -> None:
    tab = browse(site["scan"], "#/table")
    page = tab.page
    assert page.locator("[role=grid]").get_attribute("aria-rowcount") == "13"
    page.get_by_role("button", name="registers").click()
    assert tab.texts(".rows .cell-registers") == [
        "64",
        "64",
        "56",
        "48",
        "46",
        "32",
        "32",
        "30",
        "16",
        "16",
        "12",
        "10",
    ]
    page.get_by_role("button", name="registers").click()
    assert page.locator("[role=columnheader][aria-sort=ascending]").count() == 1
    assert tab.texts(".rows .cell-registers")[0] == "10"
    order = page.locator("#sort")  # which narrow screens show instead of heads
    assert order.input_value() == "registers"
    page.get_by_label("Kernel", exact=True).fill("GEMM<*>")
    page.get_by_label("Arch").select_option("sm_80")
    assert tab.texts(NAMES) == ["model::gemm<4>", "model::gemm<8>"]
    page.get_by_label("spills only").check()
    assert tab.texts(NAMES) == ["model::gemm<8>"]
    assert tab.text(".tally") == "1 of 12 kernels"
    assert page.url.endswith("#/table?q=GEMM%3C*%3E&arch=sm_80&spills=1&sort=registers")
    page.reload()
    assert tab.texts(NAMES) == ["model::gemm<8>"]
    assert page.get_by_label("spills only").is_checked()
    assert order.input_value() == "registers"
    page.get_by_label("Kernel", exact=True).fill("model::gemm<?>")
    assert tab.texts(NAMES) == ["model::gemm<8>"]
    page.get_by_label("Kernel", exact=True).fill("no such kernel")
    assert tab.text(ROWS) == "No kernel matches."


def test_names_are_found_by_their_full_and_mangled_form(site: Site, browse: Open) -> None:
    tab = browse(site["many"], "#/table?q=_Z8kernel_5ILi5E*")
    until(tab.page, "document.querySelector('.tally').textContent.startsWith('3 of')")
    tab.page.get_by_label("Kernel", exact=True).fill("void kernel_5<5, 35,*")
    until(tab.page, "document.querySelector('.tally').textContent.startsWith('3 of')")


def test_only_rows_in_sight_are_drawn(site: Site, browse: Open) -> None:
    tab = browse(site["many"], "#/table")
    assert tab.page.locator("[role=grid]").get_attribute("aria-rowcount") == str(pages.MANY + 1)
    assert tab.page.locator(ROWS).count() < 80
    tab.page.locator("[role=grid]").evaluate("grid => { grid.scrollTop = grid.scrollHeight }")
    tab.page.wait_for_selector(f"[aria-rowindex='{pages.MANY + 1}']")
    assert tab.page.locator(ROWS).count() < 80


def test_the_keyboard_reaches_everything(site: Site, browse: Open) -> None:
    tab = browse(site["many"], "#/table")
    page = tab.page
    page.keyboard.press("Tab")
    assert tab.text(":focus") == "Skip to content"
    page.locator("[role=grid]").focus()
    assert page.locator("[role=grid]").evaluate("grid => getComputedStyle(grid).outlineStyle") == "solid"
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    assert page.locator("[role=grid]").get_attribute("aria-activedescendant") == "row-1"
    page.keyboard.press("End")
    assert page.locator(".row.active").get_attribute("aria-rowindex") == str(pages.MANY + 1)
    page.keyboard.press("Home")
    wanted = page.locator(".row.active a").get_attribute("href")
    page.keyboard.press("Enter")
    assert page.url.endswith(str(wanted))
    page.locator(".full summary").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".names code")
    assert tab.texts(".names code")[0].startswith("void kernel_")
    assert tab.texts(".names code")[1].startswith("_Z")


@pytest.mark.parametrize(("name", "start"), [("scan", "#/table?arch=sm_80"), ("diff", "#/changes")])
def test_escape_leads_back_to_the_kernels_row(name: str, start: str, site: Site, browse: Open) -> None:
    page = browse(site[name], start).page
    if name == "scan":
        page.locator("[role=grid]").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
    else:
        page.locator(".changes .who a").nth(1).focus()
    page.keyboard.press("Enter")
    until(page, "location.hash.startsWith('#/kernel/')")
    page.keyboard.press("Escape")
    until(page, "start => location.hash === start", start)
    if name == "scan":
        assert page.evaluate("document.activeElement.getAttribute('role')") == "grid"
        page.wait_for_selector("#row-2.active")
    else:
        assert page.locator(".changes .who a").nth(1).evaluate("each => each === document.activeElement")


@pytest.mark.parametrize("name", ["scan", "hostile"])
def test_csv_is_safe_in_a_spreadsheet(name: str, site: Site, browse: Open) -> None:
    tab = browse(site[name])
    tab.page.evaluate("navigator.clipboard.writeText = async (text) => { document.title = text }")
    tab.go("#/table")
    tab.page.get_by_role("button", name="Copy as CSV").click()
    until(tab.page, "document.title.includes('full name')")
    text = tab.page.evaluate("document.querySelector('title').text")
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert len(rows) == (12 if name == "scan" else len(pages.HOSTILE))
    assert all(len(row) == len(header) for row in rows)
    assert not any(cell.lstrip().startswith(tuple("=+-@")) for row in rows for cell in row)
    if name == "scan":
        assert dict(zip(header, rows[0], strict=True))["spill stores"] == "304"
        assert rows[0][-1].startswith("void model::gemm<8>(")


# ---- colours, paper, phones -----------------------------------------------------------------------------------------


def paper(tab: Tab) -> str:
    return str(tab.page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_dark_light_and_print(site: Site, browse: Open) -> None:
    dark, light = browse(site["scan"], color_scheme="dark"), browse(site["scan"], color_scheme="light")
    assert (paper(dark), paper(light)) == ("rgb(18, 21, 25)", "rgb(255, 255, 255)")
    dark.page.get_by_role("button", name="Light or dark colors").click()
    assert paper(dark) == paper(light)
    assert dark.page.evaluate("localStorage.length + sessionStorage.length + document.cookie.length") == 0
    dark.page.get_by_role("button", name="Light or dark colors").click()
    dark.page.emulate_media(media="print")
    assert paper(dark) == paper(light)
    assert not dark.page.locator(".top nav").is_visible()
    many = browse(site["many"], "#/table")
    many.page.emulate_media(media="print")
    until(many.page, "document.querySelectorAll('.rows .row').length === 200")
    assert many.page.evaluate("document.documentElement.scrollHeight") < 200 * 60


@pytest.mark.parametrize("fragment", sized(["#/overview"], ["#/table", "#/overview"]))
def test_paper_shows_what_the_screen_does(fragment: str, site: Site, browse: Open) -> None:
    """On A4, by the text of the PDF: every column, whole names, and how many rows are left out."""
    tab = browse(site["many"], fragment)
    shown = tab.text("h1")
    reader = PdfReader(io.BytesIO(tab.page.pdf(format="A4", prefer_css_page_size=True)))
    text = unicodedata.normalize("NFKC", " ".join("".join(page.extract_text() for page in reader.pages).split()))
    assert reader.pages[0].mediabox.width == pytest.approx(595, abs=2)
    if fragment == "#/overview":
        assert shown in text
        return
    for head in ("kernel", "arch", "registers", "spill stores", "spill loads", "occupancy", "limited by"):
        assert head in text
    assert "more rows: see this page on a screen, or use -f csv." in text
    assert len(reader.pages) > 3


@pytest.mark.oracle
def test_the_strip_of_code_is_whole_on_paper(site: Site, browse: Open) -> None:
    """By the places of its addresses: all on one page, the first and the last within it."""
    tab = browse(site["code"])
    tab.page.locator(".first a").first.click()
    shown = tab.texts(".strip text.tick")
    reader = PdfReader(io.BytesIO(tab.page.pdf(format="A4", prefer_css_page_size=True)))
    rows: dict[tuple[int, int], dict[str, float]] = {}
    for number, page in enumerate(reader.pages):

        def place(text: str, at: list[float], own: list[float], *_: object, number: int = number) -> None:
            x, y = (own[4] * at[step] + own[5] * at[step + 2] + at[step + 4] for step in (0, 1))
            rows.setdefault((number, round(y)), {})[text.strip()] = x

        page.extract_text(visitor_text=place)
    (row,) = (row for row in rows.values() if row.keys() >= {*shown})
    left, right = min(map(row.__getitem__, shown)), max(map(row.__getitem__, shown))
    assert (len(shown), left > 42, right < 595 - 42) == (5, True, True)
    assert right - left > 400
    assert sum(page == 0 for page, _ in rows) > 40, "the first page is filled"


MOVED = """() => new Promise((resolve) => {
  let sum = 0;
  new PerformanceObserver((list) => { for (const each of list.getEntries()) sum += each.value; })
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => resolve(sum), 150);
})"""


@pytest.mark.parametrize("viewport", sized([PHONE], [DESKTOP, PHONE]))
@pytest.mark.parametrize(("name", "drawn"), [("check", "main svg"), ("diff", "main .changes")])
def test_nothing_moves_while_a_page_opens(
    name: str, drawn: str, viewport: dict[str, int], site: Site, browse: Open
) -> None:
    tab = browse(site[name], viewport=viewport)
    tab.page.wait_for_selector(drawn)
    assert tab.page.evaluate(MOVED) == 0
    kernel = browse(site[name], first_kernel(tab), viewport=viewport)
    assert kernel.page.locator(".view").get_attribute("class") == "view view-kernel"
    kernel.page.wait_for_selector(".residency")
    assert kernel.page.evaluate(MOVED) == 0


UNNAMED = """all => all.filter(each => !each.closest("[aria-hidden=true]")
  && !(["img", "group"].includes(each.getAttribute("role")) && each.getAttribute("aria-label"))).length"""


@pytest.mark.parametrize(
    "name",
    sized(["hostile-diff", "size"], ["check", "diff", "hostile", "hostile-diff", "history", "sweep", "size"]),
)
def test_nothing_is_wider_than_the_screen(name: str, site: Site, browse: Open) -> None:
    tab = browse(site[name])
    for route in routes(name, tab):
        tab.go(route)
        for details in tab.page.locator("details").all()[:2]:
            details.evaluate("each => { each.open = true }")
        for viewport in (DESKTOP, PHONE):
            tab.page.set_viewport_size(viewport)
            tab.page.wait_for_timeout(20)
            wide = tab.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, (route, viewport)
        assert tab.page.locator("svg").evaluate_all(UNNAMED) == 0, "each picture is described to who cannot see it"


GLUED = """() => {
  const inline = (own) => /^(inline|contents)$/.test(getComputedStyle(own).display);
  const block = (node) => { let own = node.parentElement; while (inline(own)) own = own.parentElement; return own; };
  const reported = (own) => own.checkVisibility() && !own.closest("[aria-hidden=true], option, svg");
  const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), shown = [];
  for (let node = walk.nextNode(); node; node = walk.nextNode())
    if (node.data && reported(node.parentElement)) shown.push(node);
  return shown.flatMap((node, at) => {
    const before = shown[at - 1];
    if (!at || block(before) !== block(node) || before.parentElement === node.parentElement) return [];
    return /[\\w)]$/.test(before.data) && /^[\\w(]/.test(node.data) ? [`${before.data} | ${node.data}`] : [];
  });
}"""
"""Words that a reader hears, and a copy has, as one."""


@pytest.mark.parametrize("name", sized(["diff"], ["check", "diff", *COURSES]))
def test_no_text_is_cut_or_overlaps(name: str, site: Site, browse: Open) -> None:
    tab = browse(site[name])
    for route in routes(name, tab):
        tab.go(route)
        for screen in SIZES:
            tab.page.set_viewport_size(screen)
            tab.page.evaluate(DRAWN)
            assert tab.page.evaluate(BOXES) == [], (route, screen)
        assert tab.page.evaluate(GLUED) == [], (route, "no space stands between two words of a line")


def test_columns_are_below_their_heads(site: Site, browse: Open) -> None:
    tab = browse(site["hostile"], "#/table")
    edges = "all => [...new Set(all.map(each => Math.round(each.getBoundingClientRect().right)))]"
    for name in METRICS:
        assert len(tab.page.locator(f".cell-{name}").evaluate_all(edges)) == 1


# ---- what it never does ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sized(["hostile"], [*HOSTILE, *COURSES]))
def test_hostile_names_are_inert(name: str, site: Site, browse: Open) -> None:
    tab = browse(site[name])
    found = routes(name, tab)
    if "#/table" in found:
        tab.go("#/table")
        found = list(dict.fromkeys([*found, *tab.page.locator(NAMES).evaluate_all(HREFS)[:: sized(9, 1)]]))
    for route in found:
        tab.go(route)
        for details in tab.page.locator("details").all()[:4]:
            details.evaluate("each => { each.open = true }")
        tab.page.wait_for_timeout(20)
        assert not any(sign in tab.page.title() for sign in "\u202e\u2066")
        one = route.startswith("#/kernel/")
        assert one or "onerror" in tab.text("body") or "</script>" in tab.text("body"), "the names are there"
        assert tab.page.evaluate("window.owned") is None
        acting = "img, iframe, object, embed, base, form[action], body script ~ script ~ script"
        assert tab.page.locator(acting).count() == 0
        links = tab.page.locator("a").evaluate_all(HREFS)
        assert all(link.startswith("#") for link in links)
        shown = tab.page.locator("body").inner_text()
        assert not any(sign in shown for sign in "\u202e\u2066")


def test_hostile_addresses_lead_nowhere(site: Site, browse: Open) -> None:
    tab = browse(site["scan"], "#/kernel/%E0%A4%A")
    assert tab.text("h1") == "No such kernel"
    for fragment in ("#/kernel/%3Cimg%20src=x%3E", "#/__proto__/x", "#/table?sort=-__proto__&arch=%3Cb%3E", "#//"):
        tab.go(fragment)
        assert tab.page.locator("h1").count() == 1


def test_the_policy_forbids_everything_else(site: Site, browse: Open) -> None:
    tab = browse(site["scan"])
    refused = tab.page.evaluate(
        """() => { try { document.body.innerHTML = "<b>"; return "written"; } catch (error) { return error.name; } }"""
    )
    assert refused == "TypeError"
    with tab.page.expect_console_message(lambda message: "example.invalid" in message.text) as complaint:
        tab.page.evaluate("fetch('https://example.invalid/').catch(() => {})")
    assert "Content Security Policy" in complaint.value.text
    tab.complaints.clear()


AXE_SEES = ("check", "diff", "worse", "flags", "history", "sweep")


@pytest.mark.oracle
@pytest.mark.parametrize("name", AXE_SEES)
def test_axe_finds_nothing_serious(name: str, site: Site, browse: Open, axe: str) -> None:
    tab = browse(site[name], color_scheme="light", reduced_motion="reduce", bypass_csp=True)
    tab.page.evaluate(axe)
    for route in routes(name, tab):
        tab.go(route)
        for scheme, rules in (("light", "{}"), ("dark", "{runOnly: ['color-contrast']}"))[: 2 if NO_SKIPS else 1]:
            tab.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            tab.page.evaluate(DRAWN)
            assert serious(tab.page, rules) == [], (route, scheme)


# ---- families -------------------------------------------------------------------------------------------------------


def test_families_are_rows_that_open(site: Site, browse: Open) -> None:
    tab = browse(site["scan"], "#/table")
    tab.page.get_by_label("Show").select_option("family")
    assert tab.text(ROWS) == "model::gemm 2 of 4 spill, 1,040 B 2 archs 64 304 216 128 0 ≤50% registers"
    tab.page.locator("[role=treegrid]").focus()
    tab.page.keyboard.press("ArrowRight")
    assert tab.texts(".under .cell-name")[:2] == ["<8>", "<8>"]
    assert tab.page.locator("#row-0").get_attribute("aria-expanded") == "true"
    tab.page.get_by_text("More filters").click()
    tab.page.get_by_label("Family").select_option("model::rotate")
    assert tab.text(".tally") == "2 of 12 kernels"
    assert {"family=model%3A%3Arotate", "by=family"} <= set(tab.page.url.partition("?")[2].split("&"))


def test_a_template_that_got_worse_is_one_row_of_changes(site: Site, browse: Open) -> None:
    tab = browse(site["worse"])
    assert tab.texts("section > h2") == ["Errors 10", "Warnings 2", "Other changes 1"]
    assert tab.page.locator(".changes > li").count() == 2 + 6, "the worst family is open; archs that agree share a row"
    assert tab.text(".family summary") == (
        "gemm 10 changed spill stores 10 ↑, largest +160 B spill loads 10 ↑, largest +160 B "
        "registers 10 ↑, largest +16 stack 10 ↑, largest +160 B"
    )
    assert tab.texts(".inner .who")[0] == "<5> sm_80, sm_90"
    tab.page.get_by_label("Order").select_option("-spill stores")
    assert [each.split()[0] for each in tab.texts(".changes .who")] == [f"gemm<{n}>" for n in (5, 4, 3, 2, 1)]
    tab.page.get_by_label("Arch").select_option("sm_90")
    tab.page.get_by_label("Kernel", exact=True).fill("gemm<[")
    assert tab.text(".view p.quiet") == "No change matches."


def test_a_page_is_grouped_as_it_was_asked_for(site: Site, browse: Open) -> None:
    tab = browse(site["flags"])
    assert tab.texts(".family summary b") == ["second", "first"]
    assert tab.text(".totals dd") == "+384 B", "what is new counts, as in text"
    total = next(line for line in rendered("text", pages.flags()).splitlines() if line.startswith("total"))
    assert re.search(r"8↑ +spill stores +128 → 512 B \(\+384[;)]", total)
    tab.page.get_by_label("Show").select_option("family")
    until(tab.page, "location.hash.endsWith('by=family')")
    assert tab.texts(".family summary b") == [f"{space}::attention" for space in ("second", "first")]
    tab.page.get_by_label("Show").select_option("none")
    assert tab.page.locator(".family").count() == 0
    tab.go("#/table")
    assert tab.page.get_by_label("Show").input_value() == "namespace"
    assert tab.text(ROWS).startswith("second 16 of 16 spill, 1,024 B")


def test_copies_in_libraries_are_told_apart(site: Site, browse: Open) -> None:
    tab = browse(site["copies"])
    assert tab.texts(".changes .who p:first-child") == ["gemm sm_90 in one.so", "gemm sm_90 in two.so"]
    tab.go("#/table?open=file+gemm.cu")
    assert tab.texts(".rows .cell-object") == ["2 objects", "k/two.so", "k/one.so"]


def test_charts_lead_to_their_kernels(site: Site, browse: Open) -> None:
    tab = browse(site["scan"])
    tab.page.get_by_role("link", name="57 to 64 registers").first.click()
    until(tab.page, "location.hash === '#/table?registers=57-64'")
    assert tab.text(".tally") == "2 of 12 kernels"
    tab.page.get_by_role("button", name="remove this filter").click()
    assert tab.text(".tally") == "12 kernels"


def test_bytes_read_as_in_text(tmp_path: Path, browse: Open) -> None:
    counts = [0, 1_740, MIB - 1, MIB, 10 * MIB + MIB // 4, 999 * MIB + MIB // 2, 1023 * MIB, 1 << 30, 1234 << 30]
    counts += [random.Random(7).randrange(1 << bits) for bits in range(1, 40)]
    groups = tuple(SizeGroup(f"n{count}", count, count) for count in counts)
    path = tmp_path / "sizes.html"
    path.write_text("".join(size_page(SizeGroup("all", sum(counts), sum(counts), groups=groups), "sizes")))
    assert browse(path).texts(".sizes tbody td:nth-child(2)") == list(map(size, counts))


def test_cells_are_those_of_json_and_of_text(
    tmp_path: Path, browse: Open, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    log = FIXTURES / sized("demo/head.log", "large/kernels5000-13.0.log.zst")
    page, data = tmp_path / "b.html", tmp_path / "b.json"
    assert main(["scan", str(log), "--all", "-f", "text", "-f", f"html:{page}", "-f", f"json:{data}"]) == 0
    documents = json.loads(data.read_text())["kernels"]
    kernels = scan([str(data)]).kernels
    ranked = sorted(range(len(kernels)), key=lambda at: damage(kernels[at]))
    draw = random.Random(20)

    def cells(at: int) -> dict[str, str]:
        usage = documents[at]["usage"]
        found = {name: "–" if usage[name] is None else f"{usage[name]:,}" for name in METRICS}
        return {**found, "arch": documents[at]["arch"]}

    tab = browse(page, "#/table")
    height = tab.page.locator(".rows .row").first.bounding_box()["height"]  # type: ignore[index]
    for place in draw.sample(range(len(ranked)), sized(5, 75)):
        tab.page.locator("[role=grid]").evaluate("(grid, top) => { grid.scrollTop = top }", place * height)
        until(tab.page, "at => document.querySelector(`.row[aria-rowindex='${at}'] .cell-arch`)", place + 2)
        row = tab.page.locator(f".row[aria-rowindex='{place + 2}']")
        wanted = cells(ranked[place])
        assert {key: row.locator(f".cell-{key}").inner_text().strip() for key in wanted} == wanted

    rows = [re.split(r"\s{2,}", line) for line in capsys.readouterr().out.partition("\n\n")[0].splitlines()[1:]]
    names = Names(kernel.named_by for kernel in kernels)
    for name, archs, *figures in draw.sample(rows, sized(5, 75)):
        called = set(names.called(name.removesuffix(" (function)")))
        arch = archs.partition(",")[0].partition(" …")[0]
        alike = [cells(at) for at, each in enumerate(kernels) if each.named_by in called and each.key.arch == arch]
        shown = [figure.rstrip("*").replace("-", "–") for figure in figures[:3]]
        assert any(shown == [each[key] for key in METRICS] for each in alike), (name, archs)


def test_a_history_has_one_filter_for_its_tables(site: Site, browse: Open) -> None:
    tab = browse(site["history"])
    assert tab.text("h1") == "2 regressions in 4 builds"
    assert tab.page.locator("details:not([open])").count() == 1
    tab.page.get_by_role("searchbox").fill("gemm")
    assert [row.split()[0] for row in tab.texts("section tbody tr")] == ["gemm<8>"]
