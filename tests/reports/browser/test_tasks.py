"""Tasks of users: the line of the costliest spill, its cause, the build that made it worse, the fix. Each is visible
after at most three clicks from the first screen, and after as many presses of Enter reached by Tab and arrows.
"""

from __future__ import annotations

import pytest

from tests.conftest import sized
from tests.reports.browser.conftest import Open, Site, Tab, until

SCREEN = {"width": 1440, "height": 900}
MOST_CLICKS, MOST_TABS = 3, 40
"""From the first screen; from one place to the next."""
TASKS = (
    # task, page, what is chosen on the way, what is in sight at the end
    ("line", "code", (), "opt/project/sass.cu:36 81%"),
    ("line", "code", ("array_and_spills",), "36 81% 30 19/21 int line_36; // <b>&amp;"),
    ("line", "code", ("Kernels", "row 2"), "10 int line_10; // <b>&amp; 90% 30 8/8"),
    ("cause", "code", (), "-maxrregcount=32 limits it to 32 registers"),
    ("cause", "code", ("array_and_spills",), "register limit 32; 47 values are live"),
    ("cause", "check", (), "255 registers, the maximum of sm_75"),
    ("cause", "grown", ("array_and_spills",), "CUDA 12.8.93 → 13.5.37"),
    ("build", "diff", (), "model::gemm<8> sm_80, sm_90a"),
    ("build", "diff", ("model::gemm<8>",), "before: 1 block/SM, 20 of 64 warps"),
    ("build", "history", (), "gemm<8> sm_90 ▁▁██ spills 0 → 304 B, registers 96 → 64 01-02 v2 a1b2c3"),
    (
        "fix",
        "code",
        (),
        "use a smaller #pragma unroll factor or array at /opt/project/sass.cu:32: saves at most 44 registers",
    ),
    ("fix", "code", ("array_and_spills",), "Try: __maxnreg__(48); --launch shows its cost in blocks/SM (not tried)."),
    ("fix", "check", ("spill_f32", "What spill means"), "What to do."),
    ("fix", "scan", (), "__maxnreg__(72) or higher in place of launch bounds"),
    ("fix", "sweep", (), "128 128 16 2 best"),
)

IN_SIGHT = """(wanted) => {
  const plain = (node) => (node.innerText ?? node.textContent).replace(/\\s+/g, " ");
  const holds = (node) => node.checkVisibility?.() && plain(node).includes(wanted);
  const within = (box) => box.height && box.top >= 0 && box.bottom <= innerHeight && box.left >= 0;
  const shown = (node) => {
    const box = node.getBoundingClientRect();
    return within(box) && node.contains(document.elementFromPoint(box.left + 1, (box.top + box.bottom) / 2));
  };
  const least = (node) => [...node.children].some(holds) ? [...node.children].filter(holds).flatMap(least) : [node];
  return holds(document.body) && least(document.body).some((node) => [node, ...node.children].some(shown));
}"""
"""Whether a text can be read on the screen as it is: it is not scrolled away, and nothing lies on it."""
FOCUSED = """() => {
  const { activeElement: own } = document;
  return own.matches("[role$=grid]") ? "row" : own.innerText || own.getAttribute("aria-label") || own.id;
}"""


def click(tab: Tab, name: str) -> None:
    """Click on a link, a button or what opens, or on a row by its number."""
    if name.startswith("row "):
        tab.page.locator(f".rows [aria-rowindex='{int(name[4:]) + 1}'] .cell-name").click(position={"x": 2, "y": 2})
    else:
        tab.page.locator("a, button, summary").get_by_text(name, exact=True).or_(
            tab.page.get_by_role("link", name=name, exact=True)
        ).first.click()


def press(tab: Tab, name: str) -> None:
    """Reach the same by Tab, a row by arrows, and press Enter."""
    kind, _, number = name.partition(" ") if name.startswith("row ") else (name, "", "1")
    for _ in range(MOST_TABS):
        tab.page.keyboard.press("Tab")
        if tab.page.evaluate(FOCUSED) == kind:
            break
    else:
        raise AssertionError(f"{name} is not reached by {MOST_TABS} presses of Tab")
    for _ in range(int(number) - 1):
        tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")


@pytest.mark.parametrize(("task", "name", "way", "seen"), sized(TASKS[1::4], TASKS))
def test_a_task_takes_three_clicks(
    task: str, name: str, way: tuple[str, ...], seen: str, site: Site, browse: Open
) -> None:
    assert len(way) <= MOST_CLICKS
    for choose in (click, press) if way else (click,):
        tab = browse(site[name], viewport=SCREEN)
        for each in way:
            choose(tab, each)
        until(tab.page, IN_SIGHT, seen)
