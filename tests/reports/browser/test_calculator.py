"""The calculator in a real browser: what it says equals the Python model, by keyboard and by address."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from spillscan.occupancy import text
from spillscan.occupancy.devices import Device, device, devices
from spillscan.occupancy.formula import preferred_shared_bytes, resident
from spillscan.occupancy.headroom import best_block_sizes
from spillscan.occupancy.model import Configuration
from spillscan.reports.page.details import setting
from tests.conftest import run, sized
from tests.reports.browser.conftest import EVERY, PHONE, Open, serious, until

SETTINGS = sized(300, 1000)
START_AT = ("--arch", "sm_90", "--threads", "256", "--registers", "72", "--shared", "32768")
ARGUMENTS = ("occupancy", *START_AT, "-f")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calculator") / "occupancy.html"
    answer = run(*ARGUMENTS, f"html:{path}")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"", b"")
    return path


@pytest.fixture
def page(browse: Open, file: Path) -> Page:
    return browse(file).page


def result(page: Page) -> str:
    return page.locator(".result-line").inner_text()


Setting = dict[str, Any]
Act = tuple[str, str, int | str]
"""Kind of control, its name, what it is set to."""
TOP = {"threads": 1024, "registers": 255, "static": 49_152, "dynamic": 230_000, "barriers": 16}


def configuration_of(held: Setting) -> Configuration:
    on = device(held["device"])
    static = held["static"]
    attribute = max(on.shared_bytes_per_block_optin - static, 0) if held["optin"] == "max" else held["optin"]
    return Configuration(
        device=on,
        registers=held["registers"],
        threads_per_block=held["threads"],
        static_shared_bytes=static,
        dynamic_shared_bytes=held["dynamic"],
        max_dynamic_shared_bytes=attribute,
        carveout_percent=held["carveout"],
        barriers=held["barriers"],
    )


def walk(held: Setting) -> Iterator[Act]:
    """Somebody who moves one control after the other, never far from where something happens; ``held`` follows."""
    chance = random.Random(90)
    known = [on.target for on in devices()]
    for number in range(SETTINGS):
        on = device(held["device"])
        name = chance.choice(("threads", "registers", "static", "dynamic", "barriers", "device", "optin", "carveout"))
        if name in ("optin", "carveout") and on.version < (7, 0):
            name = "registers"
        if name == "device":
            held["device"] = known[number % len(known)]
            yield "select", name, held["device"]
        elif name == "optin":
            held["optin"] = chance.choice((None, "max"))
            yield "select", name, held["optin"] or "no"
        elif name == "carveout":
            now = None if held["carveout"] is None else carved(on, held["carveout"])
            steps_of = {carved(on, share): share for share in range(100, -1, -1)}
            held["carveout"] = chance.choice([None, *(share for size, share in steps_of.items() if size != now)])
            yield "select", name, "no" if held["carveout"] is None else held["carveout"]
        elif chance.random() < 0.5:
            most = on.shared_bytes_per_block if held["optin"] is None else on.shared_bytes_per_block_optin
            step = {"threads": 32, "static": on.shared_alloc_unit, "dynamic": on.shared_alloc_unit}.get(name, 1)
            place = chance.randint(name in ("threads", "registers"), min(TOP[name], most) // step)
            held[name] = place * step
            yield "range", name, place
        else:
            held[name] = chance.randint(name == "threads", chance.choice((TOP[name], TOP[name] // 8)))
            yield "number", name, held[name]


def carved(on: Device, share: int) -> int:
    return preferred_shared_bytes(on, share, "none")


ACT = """
(acts) => acts.map(([kind, name, value]) => {
  const control = document.querySelector(`.control.${name} ${kind === "select" ? "select" : `input[type=${kind}]`}`);
  control.value = value;
  control.dispatchEvent(new Event(kind === "select" ? "change" : "input"));
  const say = (query) => [...document.querySelectorAll(query)].map((node) => node.textContent);
  return [say(".result-line")[0], say(".steps li"), say(".share.binds .name b")];
})
"""
ORDER = ("device", "threads", "registers", "static", "dynamic", "optin", "carveout", "barriers")
START = Configuration(device=device("sm_90"), registers=72, threads_per_block=256, static_shared_bytes=32768)
BARS = {
    "registers": "Registers",
    "shared_memory": "Shared memory",
    "warps": "Warp slots",
    "blocks": "Block slots",
    "barriers": "Named barriers",
}


def address(configuration: Configuration) -> str:
    """As the page itself writes it."""
    pairs = zip(ORDER, setting(configuration), strict=True)
    return "#/calculator?" + "&".join(f"{name}={'no' if figure is None else figure}" for name, figure in pairs)


def steps(lines: list[str]) -> list[str]:
    """The next steps out of the text report."""
    rest = lines[lines.index("next steps") + 1 :]
    return [
        line.strip() for line in rest[: next(place for place, line in enumerate(rest) if not line.startswith("  "))]
    ]


def test_what_the_page_looks_up_is_what_the_model_says(page: Page) -> None:
    held: Setting = dict(zip(ORDER, setting(START), strict=True))
    acts, expected = [], []
    for act in walk(held):
        acts.append(act)
        expected.append(configuration_of(held))
    failures = 0
    for act, configuration, found in zip(acts, expected, page.evaluate(ACT, acts), strict=True):
        occupancy = resident(configuration)
        failures += not occupancy.can_launch
        bars = [label for name, label in BARS.items() if name in occupancy.limiters]
        said = [line for line in steps(text.report(occupancy)) if line != text.next_block_line(occupancy)]
        assert found == [text.result(occupancy), said, bars], (act, configuration)
    assert 0.1 < failures / SETTINGS < 0.9


def test_an_address_takes_what_no_control_offers(page: Page) -> None:
    chance = random.Random(9)
    for _ in range(12):
        held = dict(zip(ORDER, ("sm_80", 100, 33, 1000, 40_001, 0, 0, 3), strict=True))
        held |= {"optin": chance.randrange(160_000), "carveout": chance.randrange(101)}
        page.evaluate("address => { location.hash = address }", address(configuration_of(held)))
        reported = text.result(resident(configuration_of(held)))
        until(page, "reported => document.querySelector('.result-line').textContent === reported", reported)


def test_sliders_work_by_keyboard_and_say_what_they_mean(page: Page) -> None:
    slider = page.get_by_role("slider", name="Registers")
    slider.focus()
    for _ in range(8):
        page.keyboard.press("ArrowLeft")
    assert slider.get_attribute("aria-valuetext") == "64 a thread"
    expected = Configuration(device=device("sm_90"), registers=64, threads_per_block=256, static_shared_bytes=32768)
    assert result(page) == text.result(resident(expected))
    assert page.locator(".result-line").get_attribute("aria-live") == "polite"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "number"
    blocks = page.get_by_role("slider", name="Block size")
    blocks.focus()
    page.keyboard.press("End")
    assert blocks.get_attribute("aria-valuetext") == "1,024 threads, 32 warps"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_the_address_holds_the_setting(page: Page) -> None:
    page.get_by_role("spinbutton", name="Registers").fill("40")
    page.get_by_label("Device").select_option("sm_120")
    page.get_by_label("Shared memory limit").select_option("max")
    page.get_by_role("spinbutton", name="Dynamic shared").fill("60000")
    shown = result(page)
    until(page, "() => location.hash.includes('dynamic=60000')")
    expected = Configuration(
        device=device("sm_120"),
        registers=40,
        threads_per_block=256,
        static_shared_bytes=32768,
        dynamic_shared_bytes=60000,
        max_dynamic_shared_bytes=device("sm_120").shared_bytes_per_block_optin - 32768,
    )
    assert shown == text.result(resident(expected))
    page.reload()
    assert result(page) == shown
    assert page.get_by_role("spinbutton", name="Registers").input_value() == "40"
    page.get_by_role("button", name="Start again").click()
    until(page, "() => location.hash === '#/calculator'")


@pytest.mark.parametrize(
    "query", ["registers=999", "threads=-1", "device=__proto__", "optin=x&carveout=200", "static=1e9"]
)
def test_an_address_that_says_nothing_sensible_changes_nothing(page: Page, query: str) -> None:
    before = result(page)
    page.evaluate("query => { location.hash = `#/calculator?${query}` }", query)
    until(page, "document.querySelector('.result-line').textContent.length > 0")
    assert result(page) == before


def test_a_figure_that_cannot_be_is_marked_and_not_taken(page: Page) -> None:
    before = result(page)
    box = page.get_by_role("spinbutton", name="Block size")
    box.fill("2000")
    assert box.get_attribute("aria-invalid") == "true"
    assert result(page) == before


def test_curves_tell_every_step_in_a_table(page: Page) -> None:
    page.locator(".curve.registers summary").click()
    rows = page.locator(".curve.registers tbody tr")
    rows.first.wait_for()
    found = [[cell.inner_text() for cell in row.locator("th, td").all()] for row in rows.all()]
    assert found[0] == ["1–40", "6", "48", "75 %"]
    assert found[-1][0] == "129–255"
    sizes = best_block_sizes(START)
    labels = page.locator(".curve.warps text.cliff").all_text_contents()
    assert {str(size) for size in sizes.alternatives} >= set(labels)
    assert labels
    assert "72: 3 blocks, 37.5 %" in (page.locator(".curve.registers svg").get_attribute("aria-label") or "")


def test_budget_shows_each_block_and_what_is_left(page: Page) -> None:
    row = page.locator(".share.registers")
    assert row.locator(".piece").count() == 3
    assert "10,240 left over, 8,192 too few for another block" in row.inner_text()
    assert "binds" in row.inner_text()
    page.get_by_role("spinbutton", name="Registers").fill("255")
    page.get_by_role("spinbutton", name="Block size").fill("512")
    assert row.locator(".piece.refused").count() == 1


@pytest.mark.parametrize("options", [{"viewport": PHONE, "color_scheme": "dark"}, {}], ids=["phone", "desktop"])
def test_nothing_is_wider_than_the_screen(browse: Open, file: Path, options: dict[str, Any]) -> None:
    page = browse(file, **options).page
    page.wait_for_selector(".chart")
    for summary in page.locator(".curve summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@EVERY
@pytest.mark.parametrize("options", [{"viewport": PHONE, "color_scheme": "dark"}, {}], ids=["phone", "desktop"])
def test_axe_finds_nothing_serious(browse: Open, file: Path, axe: str, options: dict[str, Any]) -> None:
    page = browse(file, **options).page
    page.wait_for_selector(".chart")
    for summary in page.locator(".curve summary").all():
        summary.click()
    page.evaluate(axe)
    assert serious(page) == []


def test_nothing_moves_while_sliders_do(page: Page) -> None:
    tops = page.evaluate(
        """() => {
          const found = new Set();
          for (const slider of document.querySelectorAll(".whatif input[type=range]")) {
            const [first, last] = [slider.value, Number(slider.max)];
            for (let part = 0; part <= 8; part++) {
              slider.value = Math.round((last * part) / 8);
              slider.dispatchEvent(new Event("input"));
              const all = [...document.querySelectorAll(".control, .share, .steps, .graphs")];
              found.add(all.map((each) => each.getBoundingClientRect().top).join());
            }
            slider.value = first;
            slider.dispatchEvent(new Event("input"));
          }
          return found.size;
        }"""
    )
    assert tops == 1


def test_print_leaves_the_controls_out(page: Page) -> None:
    page.emulate_media(media="print")
    assert not page.locator(".whatif").is_visible()
    assert page.locator(".budget").is_visible()


def test_without_javascript_the_start_is_text(browse: Open, file: Path) -> None:
    page = browse(file, java_script_enabled=False).page
    assert "3 blocks/SM, 24 of 64 warps" in page.inner_text("pre")


def test_the_page_is_the_same_bytes_again(file: Path, tmp_path: Path) -> None:
    assert run(*ARGUMENTS, f"html:{tmp_path / 'again.html'}").returncode == 0
    assert (tmp_path / "again.html").read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--vary", "registers"),
        ("-f", "json"),
        ("--set", "cache_preference=shared"),
        ("--registers", "256"),
        ("--threads", "2000"),
        ("--from", "x.csv"),
    ],
)
def test_what_the_page_cannot_show_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    answer = run("occupancy", "-f", f"html:{tmp_path / 'x.html'}", *arguments)
    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) <= 2
    assert not (tmp_path / "x.html").exists()


def test_the_payload_is_json_without_a_tag(file: Path) -> None:
    payload = file.read_text().split('id="payload">')[1].split("</script>")[0]
    assert "<" not in payload
    assert set(json.loads(payload)) == {"title", "tool", "views", "devices", "start", "about"}
