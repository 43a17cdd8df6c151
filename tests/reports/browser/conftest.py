"""A real Chromium for the pages, one a session; axe-core comes from npm into pytest's cache.

Without Chromium these tests are skipped, which ``SPILLSCAN_SKIP=never`` makes a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.conftest import sized
from tests.reports.browser import pages

DESKTOP, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
AXE = "axe-core@4.10.3"
NPM_SECONDS = 90


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium on PATH: apt-get install chromium")
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if root else [])
        yield browser
        browser.close()


def until(page: Page, expression: str, argument: Any = None) -> None:
    """Wait until an expression is true and its effects are drawn. Playwright's own method evaluates text in the page,
    which the page's policy refuses.
    """
    patience = time.monotonic() + 30
    while not page.evaluate(expression, argument):
        assert time.monotonic() < patience, expression
        page.wait_for_timeout(10)
    page.evaluate(DRAWN)


DRAWN = "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"


BOXES = """() => {
  const shown = [], found = [], scrolls = /auto|scroll/, cut = /hidden|clip/;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const own = node.parentElement, text = node.data.trim().slice(0, 50), range = document.createRange();
    if (!text || !own.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (own.closest(".hidden, [aria-hidden=true], noscript, title, option")) continue;
    range.selectNodeContents(node);
    let boxes = [...range.getClientRects()].filter((box) => box.width > 1 && box.height > 1), sticky = false;
    for (let each = own; each && each !== document.body; each = each.parentElement) {
      const style = getComputedStyle(each), room = each.getBoundingClientRect();
      sticky ||= style.position === "sticky";
      if (each instanceof SVGElement || style.overflow === "visible" || style.display === "inline") continue;
      const cuts = cut.test(style.overflowX) && style.textOverflow !== "ellipsis";
      const outside = (box) => box.right > room.right + 1.5 || box.left < room.left - 1.5;
      if (cuts && boxes.some(outside)) found.push(`${text} is cut off`);
      boxes = boxes.map((box) => {
        const left = Math.max(box.left, room.left), top = Math.max(box.top, room.top);
        return new DOMRect(left, top, Math.min(box.right, room.right) - left, Math.min(box.bottom, room.bottom) - top);
      }).filter((box) => box.width > 1 && box.height > 1);
    }
    if (!sticky) boxes.forEach((box) => shown.push([box, text, own]));
  }
  shown.sort(([one], [other]) => one.top - other.top);
  shown.forEach(([box, text, own], at) => {
    for (let next = at + 1; next < shown.length && shown[next][0].top < box.bottom - 3; next += 1) {
      const [other, words, its] = shown[next], high = Math.min(box.bottom, other.bottom) - other.top;
      const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
      if (own === its || wide <= 2 || high <= Math.min(box.height, other.height) / 3) continue;
      found.push(`${text} lies on ${words}`);
    }
  });
  return found;
}"""
"""Texts that are cut off without an ellipsis, or lie on one another; what scrolls, and stays in sight, may."""
SIZES = [ViewportSize(width=width, height=900) for width in sized((390,), (1440, 1024, 768, 390))]


@dataclass
class Tab:
    """A page that is open, and what it did that it should not."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Console messages, uncaught errors and requests other than for the file itself."""

    def go(self, fragment: str) -> None:
        """Follow a link inside of the page."""
        self.page.evaluate("fragment => { location.hash = fragment }", fragment)
        until(self.page, "fragment => location.hash === fragment", fragment)

    def text(self, selector: str) -> str:
        """The text of the first element."""
        return self.texts(selector)[0]

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements."""
        self.page.wait_for_selector(selector)
        shown = "all => all.map(each => each.innerText ?? each.textContent)"
        return [" ".join(each.split()) for each in self.page.locator(selector).evaluate_all(shown)]


Open = Callable[..., Tab]


@pytest.fixture(scope="session")
def spare() -> defaultdict[str, list[Tab]]:
    """Tabs that no test uses now, by what they can: to open a file in one takes a third of the time of a new one."""
    return defaultdict(list)


@pytest.fixture
def browse(chromium: Browser, spare: defaultdict[str, list[Tab]]) -> Iterator[Open]:
    """Opens a file; when the test ends, no page may have complained."""
    tabs: list[tuple[str, Tab]] = []

    def made(**options: Any) -> Tab:
        tab = Tab(chromium.new_context(**options).new_page())
        tab.page.on("console", lambda message: tab.complaints.append(message.text))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on("request", lambda request: None if is_file(request.url) else tab.complaints.append(request.url))
        return tab

    def opened(
        path: Path,
        fragment: str = "",
        viewport: ViewportSize = DESKTOP,
        color_scheme: Any = "light",
        reduced_motion: Any = "no-preference",
        **options: object,
    ) -> Tab:
        kept = spare[repr(options)]
        tab = kept.pop() if kept else made(**options)
        tabs.append((repr(options), tab))
        tab.complaints.clear()
        tab.page.set_viewport_size(viewport)
        tab.page.emulate_media(media="null", color_scheme=color_scheme, reduced_motion=reduced_motion)
        tab.page.goto(f"{path.as_uri()}{fragment}")
        if options.get("java_script_enabled", True):
            tab.page.wait_for_selector("main .view", state="attached")  # the page's data is unpacked after it loads
        return tab

    def is_file(url: str) -> bool:
        return url.startswith("file:") and url.partition("#")[0].endswith(".html")

    yield opened
    complaints = [complaint for _, tab in tabs for complaint in tab.complaints]
    for options, tab in tabs:
        tab.page.mouse.move(-1, -1)
        tab.page.goto("about:blank")
        spare[options].append(tab)
    assert complaints == []


class Site:
    """Every kind of page as a file, by name, made when a test asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> Path:
        path = self._folder / f"{name}.html"
        if not path.exists():
            path.write_text(pages.PAGES[name](), encoding="utf-8")
        return path


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="session")
def axe(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, kept where pytest has a cache."""
    cache: pytest.Cache | None = getattr(pytestconfig, "cache", None)
    folder = Path(cache.mkdir("axe")) if cache else tmp_path_factory.mktemp("axe")
    script = folder / AXE / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm on PATH: apt-get install npm")
        work = folder / f"{AXE}.{os.getpid()}"
        work.mkdir(exist_ok=True)
        quick = ["--no-audit", "--no-fund", "--no-save", "--fetch-retries=1", "--fetch-timeout=30000"]
        command = [npm, "install", "--prefix", str(work), *quick, AXE]
        try:
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=NPM_SECONDS)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"npm cannot install {AXE}: {error.stderr[-300:]}")
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm cannot install {AXE} within {NPM_SECONDS} s")
        if not script.exists():
            shutil.rmtree(folder / AXE, ignore_errors=True)
            work.rename(folder / AXE)
    return script.read_text(encoding="utf-8")


def serious(page: Page, options: str = "{}") -> list[str]:
    """Problems that axe rates serious, except for the marks of a strip, hundreds of which are parts of one image."""
    # What it found in order is far more than what it complains of: that stays in the page.
    asked = f"Object.assign({{resultTypes: ['violations']}}, {options})"
    run = f"async () => (await axe.run({{exclude: ['.strip .mark']}}, {asked})).violations"
    found: list[dict[str, Any]] = page.evaluate(run)
    return [
        f"{each['id']}: {node['html'][:150]} {(node.get('failureSummary') or '')[:300]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
