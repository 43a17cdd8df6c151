"""The pictures of README: a terminal as SVG, and the page of a kernel as PNG, light and dark, drawn from fixtures.
``python -m tests.pictures`` draws them anew (Chromium on the PATH); tests hold what they show to what is shown now.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from tests.conftest import FIXTURES, ROOT
from tests.reading.binary.support import stored

FOLDER = ROOT / "docs" / "pictures"
COMMAND = ("spillscan", "scan", "fixtures/demo/head.log")
SHOWN = FOLDER / "page.txt"
"""Readable text in the picture of the page."""
_THEMES = {
    "light": ("#ffffff", "#15181c", {"31": "#b0291c", "33": "#8a5200", "32": "#00695a"}),
    "dark": ("#121519", "#e9ebee", {"31": "#ff8f7d", "33": "#f2b659", "32": "#5fcab6"}),
}
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_WIDE, _HIGH = 7.8, 18


def terminal(theme: str) -> str:
    """Terminal contents as SVG."""
    paper, ink, colors = _THEMES[theme]
    words = [sys.executable, "-m", *COMMAND]
    environment = {**os.environ, "COLUMNS": "100", "FORCE_COLOR": "1"}
    output = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, check=True, text=True).stdout
    lines = [f"$ {' '.join(COMMAND)}", *output.splitlines()]
    width = round(max(len(_SGR.sub("", line)) for line in lines) * _WIDE + 32)
    rows = [
        f'<text x="16" y="{28 + _HIGH * at}" xml:space="preserve">{_spans(line, colors)}</text>'
        for at, line in enumerate(lines)
    ]
    high = 40 + _HIGH * len(lines)
    font = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {high}" width="{width}" height="{high}" '
            f'font-family="{font}" font-size="13" fill="{ink}">',
            f'<rect width="{width}" height="{high}" rx="8" fill="{paper}" stroke="#868e99"/>',
            *rows,
            "</svg>\n",
        )
    )


def _spans(line: str, colors: dict[str, str]) -> str:
    pieces = _SGR.split(line)
    found = [escape(pieces[0])]
    for codes, text in zip(pieces[1::2], pieces[2::2], strict=True):
        color = next((colors[code] for code in codes.split(";") if code in colors), None)
        found.append(f'<tspan fill="{color}">{escape(text)}</tspan>' if color and text else escape(text))
    return "".join(found)


def page(folder: Path) -> Path:
    """The page of the pictures, whose first kernel they show."""
    (folder / "k.cubin").write_bytes(stored("lines-sm_80-13.5.cubin"))
    words = ["check", "k.cubin", "-f", "html:page.html", "--source-root", str(FIXTURES / "sources"), "--config", "none"]
    subprocess.run([sys.executable, "-m", "spillscan", *words], cwd=folder, capture_output=True, check=False)
    return folder / "page.html"


def open_kernel(tab: object) -> str:
    """Show source and machine code of the first kernel; return the headings and the selected rows, since fonts decide
    how many other rows are drawn.
    """
    tab.locator(".first a").first.click()  # type: ignore[attr-defined]
    tab.wait_for_selector(".sidebyside .chosen")  # type: ignore[attr-defined]
    tab.wait_for_timeout(300)  # type: ignore[attr-defined]
    view = "document.querySelector('.sourceview')"
    tab.evaluate(f"{view}.scrollIntoView()")  # type: ignore[attr-defined]
    whole: str = tab.evaluate(f"{view}.innerText")  # type: ignore[attr-defined]
    rows: list[str] = tab.evaluate(f"[...{view}.querySelectorAll('.chosen')].map(each => each.innerText)")  # type: ignore[attr-defined]
    above = " ".join(whole.split()).partition(" line source ")[0]
    return "\n".join((above, *(" ".join(each.split()) for each in rows))) + "\n"


def main() -> None:
    """Draw all of them."""
    import shutil

    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    for theme in _THEMES:
        (FOLDER / f"terminal-{theme}.svg").write_text(terminal(theme), encoding="utf-8")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        file = page(Path(place))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for theme in _THEMES:
            size = {"width": 1200, "height": 736}
            tab = browser.new_context(viewport=size, color_scheme=theme).new_page()  # type: ignore[arg-type]
            tab.goto(file.as_uri())
            SHOWN.write_text(open_kernel(tab), encoding="utf-8")
            tab.screenshot(path=FOLDER / f"page-{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
