"""The page of 100,000 kernels in a real browser: how long it takes to open, to filter and to sort, and its memory.

Writing the page stands beside writing the same build as JSON, so that the figure is a ratio. What people wait for is
held to limits: 1 s to open, 50 ms to filter (the best of three), 100 ms to show families or to open one, 500 MB.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from time import process_time

from playwright.sync_api import Page, sync_playwright

from spillscan.model import Build
from spillscan.reports.report import Report
from tests.reporting import rendered
from tests.reports.browser.pages import many

KERNELS = 100_000
OPEN_S, FILTER_MS, FAMILY_MS, MEMORY_MB, PAGE_MB_OF_1000 = 1.0, 50.0, 100.0, 500.0, 1.5

_FILTERS = ("kernel_9", "kernel_*<*12*", "zzz", "_z10kernel_97", "kernel_976", "")
_TIMED = """async (words) => {
  const query = document.getElementById("q");
  const grid = document.querySelector("[role=grid]");
  const times = words.map(() => Infinity);
  for (let at = 0; at < 3 * words.length; at++) {
    const start = performance.now();
    query.value = words[at % words.length];
    query.dispatchEvent(new Event("input"));
    grid.getBoundingClientRect();
    times[at % words.length] = Math.min(times[at % words.length], performance.now() - start);
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  }
  return times;
}"""
_SORTED = """() => [...document.querySelectorAll(".heads button")].map((button) => {
  const start = performance.now();
  button.click();
  document.querySelector("[role=grid]").getBoundingClientRect();
  return performance.now() - start;
})"""

_FAMILIES = """() => {
  const timed = (act) => {
    const start = performance.now();
    act();
    document.querySelector(".table").getBoundingClientRect();
    return performance.now() - start;
  };
  const by = document.getElementById("by");
  const show = timed(() => { by.value = "family"; by.dispatchEvent(new Event("change")); });
  return [show, timed(() => document.querySelector(".group").click())];
}"""


def main() -> int:
    """Print the figures; 1 where one is over its limit."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        print("page: no Chromium on PATH, nothing measured")
        return 0
    build = many(KERNELS)
    page_s, page = _timed("html", build)
    json_s, _ = _timed("json", build)
    small = len(_timed("html", many(1000))[1]) / 1e6
    print(f"page of {KERNELS:,} kernels: written in {page_s / json_s:.1f} x the time of JSON, {len(page) / 1e6:.1f} MB")
    print(f"page of 1,000 kernels: {small:.2f} MB")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        path.write_text(page, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(f"{path.as_uri()}#/table")
        tab.wait_for_selector(".rows .row")
        opened = tab.evaluate("performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart") / 1000
        tab.wait_for_timeout(3000)  # full names are unpacked meanwhile
        filters, sorts = tab.evaluate(_TIMED, list(_FILTERS)), tab.evaluate(_SORTED)
        families = tab.evaluate(_FAMILIES)
        memory = _memory(tab)
        browser.close()
    print(f"  opens in {opened:.2f} s; filters in at most {max(filters):.0f} ms; sorts in at most {max(sorts):.0f} ms")
    print(f"  shows families in {families[0]:.0f} ms, opens one in {families[1]:.0f} ms")
    print(f"  {memory:.0f} MB of JavaScript")
    slow = max(filters) > FILTER_MS or max(families) > FAMILY_MS
    over = slow or opened > OPEN_S or memory > MEMORY_MB or small > PAGE_MB_OF_1000
    return int(over)


def _timed(name: str, build: Build) -> tuple[float, str]:
    start = process_time()
    text = rendered(name, Report(kind="scan", build=build))
    return process_time() - start, text


def _memory(tab: Page) -> float:
    """MB of the heap and of what it holds outside, as the browser's own profiler counts them, without garbage."""
    session = tab.context.new_cdp_session(tab)
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    return float(usage["usedSize"] + usage.get("backingStorageSize", 0)) / 1e6


if __name__ == "__main__":
    sys.exit(main())
