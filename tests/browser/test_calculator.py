"""The calculator in a real browser: what it says equals the Python model, by keyboard and by address."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spillscan.page.kernel.subject import setting
from spillscan.residency import text
from spillscan.residency.curves import best_block_sizes
from spillscan.residency.devices import device, devices
from spillscan.residency.model import Configuration
from spillscan.residency.rules import resident
from tests.conftest import run

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Page

SETTINGS = 1000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calculator") / "occupancy.html"
    answer = run(
        "occupancy", "--arch", "sm_90", "--threads", "256", "--registers", "72", "--shared", "32768", "--html", str(path)
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"", b"")
    return path


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    """The calculator; whatever it says to the console, or asks from a network, is an error."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith("file:") else faults.append(request.url))
    page.goto(file.as_uri())
    yield page
    page.close()
    assert faults == []


def result(page: Page) -> str:
    return page.locator(".result-line").inner_text()


def random_settings() -> Iterator[Configuration]:
    """Any device, figures on and off the grid, fitting and not."""
    chance = random.Random(90)
    known = devices()
    for number in range(SETTINGS):
        on = known[number % len(known)]
        static = chance.choice((0, chance.randrange(on.shared_bytes_per_block + 1)))
        left = on.shared_bytes_per_block_optin - static
        yield Configuration(
            device=on,
            registers=chance.randint(1, 255),
            threads_per_block=chance.choice((chance.randint(1, 1024), 32 * chance.randint(1, 32))),
            static_shared_bytes=static,
            dynamic_shared_bytes=chance.choice((0, chance.randrange(49_153), chance.randrange(left + 1025))),
            max_dynamic_shared_bytes=chance.choice((None, left, chance.randrange(left + 1))),
            carveout_percent=chance.choice((None, chance.randrange(101))),
            barriers=chance.randint(0, on.barriers_per_block),
        )


def address(configuration: Configuration) -> str:
    """As the page itself writes it."""
    names = ("device", "threads", "registers", "static", "dynamic", "optin", "carveout", "barriers")
    pairs = zip(names, setting(configuration), strict=True)
    return "#/calculator?" + "&".join(f"{name}={'no' if figure is None else figure}" for name, figure in pairs)


READ = """
async (addresses) => {
  const found = [];
  for (const address of addresses) {
    const drawn = new Promise((done) => addEventListener("hashchange", done, { once: true }));
    location.hash = address;
    await drawn;
    const say = (query) => [...document.querySelectorAll(query)].map((node) => node.textContent);
    found.push([say(".result-line")[0], say(".steps li"), say(".share.binds .name b")]);
  }
  return found;
}
"""
BARS = {
    "registers": "Registers",
    "shared_memory": "Shared memory",
    "warps": "Warp slots",
    "blocks": "Block slots",
    "barriers": "Named barriers",
}


def steps(lines: list[str]) -> list[str]:
    """The next steps out of the text report."""
    rest = lines[lines.index("next steps") + 1 :]
    return [line.strip() for line in rest[: next(place for place, line in enumerate(rest) if not line.startswith("  "))]]


def test_what_the_page_looks_up_is_what_the_model_says(page: Page) -> None:
    chosen = list(random_settings())
    found = page.evaluate(READ, [address(configuration) for configuration in chosen])
    failures = 0
    for configuration, (line, told, binding) in zip(chosen, found, strict=True):
        occupancy = resident(configuration)
        failures += not occupancy.can_launch
        assert line == text.result(occupancy), configuration
        assert told == steps(text.report(occupancy)), configuration
        bars = [name for name in BARS if name in occupancy.limiters]
        assert binding == [BARS[name] for name in bars], configuration
    assert 100 < failures < SETTINGS - 100


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
    assert page.evaluate("location.hash") == "#/calculator"


@pytest.mark.parametrize("query", ["registers=999", "threads=-1", "device=__proto__", "optin=x&carveout=200", "static=1e9"])
def test_an_address_that_says_nothing_sensible_changes_nothing(page: Page, query: str) -> None:
    before = result(page)
    page.evaluate("query => { location.hash = `#/calculator?${query}` }", query)
    page.wait_for_function("document.querySelector('.result-line').textContent.length > 0")
    assert result(page) == before


def test_a_figure_that_cannot_be_is_marked_and_not_taken(page: Page) -> None:
    before = result(page)
    box = page.get_by_role("spinbutton", name="Block size")
    box.fill("2000")
    assert box.get_attribute("aria-invalid") == "true"
    assert result(page) == before


def test_curves_tell_every_step_in_a_table(page: Page) -> None:
    start = Configuration(device=device("sm_90"), registers=72, threads_per_block=256, static_shared_bytes=32768)
    page.locator(".curve.registers summary").click()
    rows = page.locator(".curve.registers tbody tr")
    found = [[cell.inner_text() for cell in row.locator("td").all()] for row in rows.all()]
    assert found[0] == ["1–40", "6", "48", "75 %"]
    assert found[-1][0] == "129–255"
    sizes = best_block_sizes(start)
    labels = page.locator(".curve.warps text.cliff").all_inner_texts()
    assert {str(size) for size in sizes.alternatives} >= set(labels)
    assert labels
    assert "72: 3 blocks, 37.5 %" in (page.locator(".curve.registers svg").get_attribute("aria-label") or "")


def test_budget_shows_each_block_and_what_is_left(page: Page) -> None:
    row = page.locator(".share.registers")
    assert row.locator(".piece").count() == 3
    assert "10,240 left over, 8,192 too few for another block" in row.inner_text()
    assert "binds" in row.inner_text()
    page.get_by_role("spinbutton", name="Registers").fill("255")
    assert row.locator(".piece.refused").count() == 1


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen(browser: Browser, file: Path, width: int, scheme: Any) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(file.as_uri())
    page.wait_for_selector(".chart")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_print_leaves_the_controls_out(page: Page) -> None:
    page.emulate_media(media="print")
    assert not page.locator(".whatif").is_visible()
    assert page.locator(".budget").is_visible()


def test_without_javascript_the_start_is_text(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert "3 blocks/SM, 24 of 64 warps" in page.inner_text("pre")
    context.close()


def test_the_page_is_the_same_bytes_again(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        assert run("occupancy", "--html", str(tmp_path / name)).returncode == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--vary", "registers"),
        ("-f", "json"),
        ("--cache", "shared"),
        ("--registers", "256"),
        ("--threads", "2000"),
        ("--from", "x.csv"),
    ],
)
def test_what_the_page_cannot_show_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    answer = run("occupancy", "--html", str(tmp_path / "x.html"), *arguments)
    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) <= 2
    assert not (tmp_path / "x.html").exists()


def test_the_payload_is_json_without_a_tag(file: Path) -> None:
    payload = file.read_text().split('id="payload">')[1].split("</script>")[0]
    assert "<" not in payload
    assert set(json.loads(payload)) == {"title", "tool", "views", "devices", "start", "about"}
