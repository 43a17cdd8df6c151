"""Launch bounds in what nvcc preprocesses; that ptxas sees what the source would give is held by the oracles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spillscan.advice.sweep.front_end import rewritten
from spillscan.advice.sweep.model import AS_IS, Setting
from tests.advice.sweep.conftest import run
from tests.advice.sweep.support import program, toolkit
from tests.advice.sweep.test_sweep import PTXAS

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


FRONT_END = """
words = sys.argv[1:]
here = os.path.dirname(sys.argv[0])
if "--dryrun" in words and "-ptx" in words:
    keep, target = words[words.index("--keep-dir") + 1], words[words.index("-o") + 1]
    for line in (
        f"CICC_PATH={here}",
        f'{here}/first -E "{words[-1]}" -o "{keep}/a.cpp1.ii"',
        f'"$CICC_PATH/cicc" --flag "{keep}/a.cpp1.ii" -o "{target}"',
        "ptxas never",
    ):
        sys.stderr.write(f"#$ {line}\\\\n")
elif "--dryrun" in words:
    sys.stderr.write('#$ ptxas -arch=sm_90 "x.ptx" -o "kernel.cubin"\\\\n')
elif "-E" in words:
    print("preprocessed")
else:
    pathlib.Path(words[words.index("-o") + 1]).write_text(KERNEL % "")
""".replace("\\\\n", "\\n")
FIRST = 'pathlib.Path(sys.argv[-1]).write_text("__attribute__((global)) void k() {}")'
CICC = """
made = KERNEL % pathlib.Path(sys.argv[2]).read_text()
pathlib.Path(sys.argv[-1]).write_text(made.replace("k() { ret", "k() .maxntid 128, 1, 1 .minnctapersm 4 { ret"))
"""
HEAD = "KERNEL = '.version 8.0\\n.target sm_90\\n// %s\\n.entry k() { ret; }\\n'\n"


def test_bounds_go_through_the_front_end_of_nvcc(tmp_path: Path) -> None:
    """What it preprocesses has them; where that fails they are in the PTX alone."""
    ptxas = f'pathlib.Path(os.environ["COUNT"]).open("a").write(pathlib.Path("kernel.ptx").read_text())\n{PTXAS}'
    kit = toolkit(tmp_path / "kit", "99.1.2", ptxas=ptxas, nvcc=HEAD + FRONT_END)
    program(kit / "bin" / "first", FIRST)
    cicc = program(kit / "bin" / "cicc", HEAD + CICC)
    (tmp_path / "a.cu").write_text("source")
    words = (f"{kit}/bin/nvcc -arch=sm_90 -c a.cu -o a.o", "--vary", "bounds=128x4", "--cache", "none")
    for written in (1, 0):
        (tmp_path / "count").write_text("")
        done = run(*words, "-f", "json", folder=tmp_path, COUNT=str(tmp_path / "count"))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["curves"][0]["points"][1]["in_ptx"] is not bool(written)
        seen = (tmp_path / "count").read_text()
        assert seen.count("__attribute__((launch_bounds(128, 4))) k()") == written
        assert seen.count(".minnctapersm 4") == 1
        cicc.write_text("#!/bin/false\n")
