"""Launch bounds in what nvcc preprocesses; that ptxas sees what the source would give is held by the oracles."""

from __future__ import annotations

import pytest

from spillscan.advice.sweep.model import AS_IS, Setting
from spillscan.advice.sweep.source import rewritten

GLOBAL = "__attribute__((global))"
BOUNDS = Setting(kind="bounds", threads=128, blocks=4)


@pytest.mark.parametrize(
    ("head", "setting", "made"),
    [
        (f"{GLOBAL} void", BOUNDS, "launch_bounds(128, 4)"),
        (f"{GLOBAL} void __attribute__((launch_bounds(f(2, 3) * 2, 6)))", BOUNDS, "launch_bounds(128, 4)"),
        (f"__attribute__((launch_bounds(64))) {GLOBAL} void", BOUNDS, "launch_bounds(128, 4)"),
        (f'template <int N>\n# 7 "a.cu"\n{GLOBAL}\nvoid', Setting(kind="bounds", threads=32), "launch_bounds(32)"),
        (f"{GLOBAL} void __attribute__((maxnreg(32)))", BOUNDS, "launch_bounds(128, 4)"),
        (f"{GLOBAL} void __attribute__((launch_bounds(64)))", Setting(kind="maxnreg", registers=40), "maxnreg(40)"),
        (f"{GLOBAL} void __attribute__((launch_bounds(f(2, 3) * 2, 6)))", Setting(kind="bounds", blocks=2),
         "launch_bounds(f(2, 3) * 2, 2)"),
    ],
)  # fmt: skip
def test_the_bounds_of_each_kernel_are_replaced(head: str, setting: Setting, made: str) -> None:
    other = "int f(int a) { return a; }\n"
    text = rewritten(f"{other}{head} kernel(int a) {{ f(a); }}\n{other}", setting)
    assert text.startswith(other)
    assert text.endswith(f" __attribute__(({made})) kernel(int a) {{ f(a); }}\n{other}")
    assert text.count("launch_bounds") + text.count("maxnreg") == 1
    assert "\n# 7" in text or "# 7" not in head, "marks of lines stay"


@pytest.mark.parametrize(
    "text",
    [
        f"template {GLOBAL} void kernel<3>(int);",
        f"{GLOBAL} void",
        f"{GLOBAL} void __attribute__((",
        f"{GLOBAL} void kernel(int a) {{}}",
    ],
)
def test_instances_have_the_bounds_of_their_template_and_what_is_cut_stays(text: str) -> None:
    changed = rewritten(text, BOUNDS) if "kernel(" not in text else rewritten(text, AS_IS)
    assert changed == text
    assert rewritten(text, Setting(kind="bounds", blocks=2)) == text, "there are no threads of its own"
