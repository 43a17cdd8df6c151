"""The command on real ptxas and on stand-ins: figures, failures, interruption, hostile output."""

from __future__ import annotations

import html
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from spillscan.advice.sweep import plan, toolkits
from spillscan.advice.sweep.command_line import unit
from spillscan.advice.sweep.model import AS_IS
from spillscan.cli import main
from spillscan.output.errors import UsageError
from tests.advice.sweep.conftest import curves, run
from tests.advice.sweep.support import PTX, RELEASE, toolkit
from tests.conftest import FIXTURES, ROOT
from tests.oracle.sweep_oracle import by_hand

REAL = ("--vary", f"toolkit={RELEASE}")
FAST = ("--kernel", "fft<8>", "--kernel", "attention<32>", "--kernel", "gemm<8, 8>")

# A ptxas that compiles what it finds at CUBIN, and minds its environment.
PTXAS = """
pathlib.Path(os.environ["COUNT"]).open("a").write(" ".join(sys.argv[1:]) + "\\n")
if os.environ.get("HANG") and "-maxrregcount=32" in sys.argv:
    time.sleep(60)
if os.environ.get("FAIL") and "-maxrregcount=32" in sys.argv:
    sys.stderr.write("note\\nptxas fatal   : \\x1b[2J\\u202e::error::bad ##[error]x\\nptxas fatal   : aborted\\n")
    sys.exit(255)
name = "ptxas info    : Compiling entry function 'k' for 'sm_90'\\nptxas info    : Function properties for k\\n"
sys.stderr.write(name + "    8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\\n")
sys.stderr.write("ptxas info    : Used 40 registers\\n")
pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_bytes(b"no cubin")
"""
KERNEL = ".version 8.0\n.target sm_90\n.address_size 64\n.entry k() { ret; }\n"


@pytest.fixture
def fake(tmp_path: Path) -> tuple[Path, tuple[str | Path, ...]]:
    """(folder, words of a sweep by the stand-in)."""
    (tmp_path / "-a b.ptx").write_text(KERNEL)
    toolkit(tmp_path / "kit", "99.1.2", ptxas=PTXAS)
    words = (
        "--vary",
        "cap=32,64",
        "--vary",
        f"toolkit={tmp_path / 'kit'}",
        "--cache",
        tmp_path / "cache",
        "--",
        "./-a b.ptx",
    )
    return tmp_path, words


def calls(folder: Path) -> list[str]:
    file = folder / "count"
    return file.read_text().splitlines() if file.exists() else []


# ---- figures ------------------------------------------------------------------------------------------------------


def test_every_figure_is_what_ptxas_prints(cache: Path) -> None:
    archs, caps = ("sm_80", "sm_90"), (32,)
    found = curves(PTX, *REAL, "--arch", ",".join(archs), "--vary", "cap=32", "--cache", cache)
    ptxas = Path(toolkits.choose([RELEASE])[0].ptxas)
    reported = {
        (curve["symbol"], curve["arch"], point["registers_asked"]): (
            *(point["registers"], point["stack_bytes"]),
            *(point["spill_store_bytes"], point["spill_load_bytes"]),
        )
        for curve in found
        for point in curve["points"]
    }
    truth = {
        (symbol, arch, cap): figures
        for arch in archs
        for cap in (None, *caps)
        for symbol, figures in by_hand(ptxas, PTX, arch, [] if cap is None else [f"-maxrregcount={cap}"]).items()
    }
    assert reported == truth
    assert len(truth) == 12 * 2 * 2
    for curve in found:
        for point in curve["points"]:
            assert sum(depth["bytes"] for depth in point["spills_by_depth"]) == sum(
                (point["spill_store_bytes"], point["spill_load_bytes"])
            )


def test_bounds_and_maxnreg_do_what_ptxas_does_with_them(cache: Path) -> None:
    words = (
        "--arch",
        "sm_90",
        "--vary",
        "bounds=128x8",
        "--vary",
        "maxnreg=64",
        "--kernel",
        "attention<32>",
        "--cache",
        cache,
    )
    for curve in curves(PTX, *REAL, *words):
        as_is, bounds, maxnreg = curve["points"]
        assert as_is["registers"] > 64
        assert bounds["registers"] == maxnreg["registers"] == 64
        assert (bounds["resident_blocks"], bounds["threads_per_block"]) == (8, 128)
        assert maxnreg["resident_blocks"] == 8, "its own block size is remembered"


def test_caps_that_bounds_override_say_so(cache: Path) -> None:
    words = (PTX, *REAL, "--arch", "sm_90", "--vary", "cap=32,80", *FAST, "--cache", cache)
    by_name = {curve["name"].split("<")[0]: curve for curve in curves(*words)}
    bounded = by_name["void attention"]
    assert [point["overridden"] for point in bounded["points"]] == ["", *["__launch_bounds__(128)"] * 2]
    assert not any(point["best"] for point in bounded["points"][1:])
    assert any("overrides -maxrregcount" in flag for flag in bounded["flags"])
    free = by_name["void gemm"]
    assert any(point["best"] for point in free["points"][1:])
    assert free["launch"] is None
    assert {point["resident_blocks"] for point in free["points"]} == {None}
    text = run(*words).stdout
    assert "__launch_bounds__(128) overrides -maxrregcount" in text
    assert text.count("cap 32") == 3, "no row of what was overridden, but of all together"


def test_flags_of_bounds_beyond_the_sm(tmp_path: Path) -> None:
    text = PTX.read_text().replace(".minnctapersm 2", ".minnctapersm 9")
    (tmp_path / "k.ptx").write_text(text)
    words = (
        tmp_path / "k.ptx",
        *REAL,
        "--arch",
        "sm_90",
        "--vary",
        "cap=none",
        "--kernel",
        "stencil<4>",
        "--cache",
        "none",
    )
    (curve,) = curves(*words)
    assert curve["flags"] == [
        "__launch_bounds__(256, 9): 9 x 256 threads exceed the 2,048 of an SM; ptxas ignores the blocks"
    ]
    assert any("out of range" in remark for remark in curve["points"][0]["remarks"])


def test_advice_is_compiled(cache: Path, tmp_path: Path) -> None:
    words = ("--arch", "sm_90", "--vary", "steps", *FAST, "--launch", "gemm*=256", "--cache", cache)
    by_name = {re.split("[ <(]", curve["name"])[1]: curve for curve in curves(PTX, *REAL, *words)}
    first, second = by_name["gemm"]["advice"][:2]
    assert (first["kind"], first["threads_asked"], first["blocks_asked"], first["cap"]) == ("bounds", 256, 3, 80)
    assert (second["kind"], second["registers_asked"]) == ("maxnreg", 80)
    assert first["registers"] <= 80
    assert first["gain_blocks"] == second["gain_blocks"] == 1
    assert by_name["gemm"]["flags"][0].endswith("cannot be launched (1,024 need at most 64 registers)")
    assert "--launch" in by_name["fft"]["no_advice"]
    said = run(PTX, *REAL, *words, "-f", "text", "-f", f"html:{tmp_path / 's.html'}").stdout
    assert said.count("__launch_bounds__(256, 3)") == 1
    page = html.unescape((tmp_path / "s.html").read_text(encoding="utf-8"))
    below = [line.strip() for line in said.splitlines() if "at most" in line or "note: " in line or "no advice" in line]
    assert len(below) > 3
    assert [line for line in below if f"  {line}\n" not in page] == [], "the page says what the text says"


# ---- what can go wrong ----------------------------------------------------------------------------------------------


def test_a_failure_is_a_row_and_harmless(fake: tuple[Path, tuple[str | Path, ...]]) -> None:
    folder, words = fake
    done = run(*words, folder=folder, COUNT=str(folder / "count"), FAIL="1")
    assert done.returncode == 0
    assert "1 compilation failed" in done.stderr
    assert re.search(r"cap 32 .* failed\n", done.stdout)
    assert "cap 32: ptxas fatal" in done.stdout
    data = run("-f", "json", *words, folder=folder, COUNT=str(folder / "count"), FAIL="1").stdout
    for evil in ("\x1b[2J", "\u202e", "##[error]"):
        assert evil not in done.stdout + done.stderr + data
    (failed,) = (point for point in json.loads(data)["curves"][0]["points"] if point["failure"])
    assert (failed["kind"], failed["registers_asked"], failed["registers"]) == ("cap", 32, None)
    again = run(*words, folder=folder, COUNT=str(folder / "count"))
    assert "failed" not in again.stdout, "failures are not kept"


def test_results_are_kept_and_damaged_ones_made_anew(fake: tuple[Path, tuple[str | Path, ...]]) -> None:
    folder, words = fake
    count = {"COUNT": str(folder / "count")}
    first = run(*words, folder=folder, **count)
    assert (first.returncode, len(calls(folder))) == (0, 3)
    assert all(" kernel.ptx -o kernel.cubin" in call for call in calls(folder)), "no name of the user's"
    assert run(*words, folder=folder, **count).stdout == first.stdout
    assert run("-j", "1", *words, folder=folder, **count).stdout == first.stdout
    assert len(calls(folder)) == 3
    kept = next(path for path in (folder / "cache").rglob("*") if path.is_file())
    kept.write_bytes(kept.read_bytes()[:-1])
    assert run(*words, folder=folder, **count).stdout == first.stdout
    assert len(calls(folder)) == 4
    (folder / "-a b.ptx").write_text(KERNEL + "// changed\n")
    run(*words, folder=folder, **count)
    assert len(calls(folder)) == 7


def test_an_interrupted_sweep_goes_on(fake: tuple[Path, tuple[str | Path, ...]]) -> None:
    folder, words = fake
    import os

    command = [sys.executable, "-m", "spillscan", "sweep", "-j", "3", *map(str, words)]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "COUNT": str(folder / "count"), "HANG": "1"}
    process = subprocess.Popen(command, cwd=folder, env=variables, stderr=subprocess.PIPE, text=True)
    kept: list[Path] = []
    while len(kept) < 2 and process.poll() is None:
        kept = [path for path in (folder / "cache").rglob("*") if path.is_file() and not path.name.startswith(".")]
        time.sleep(0.02)
    while len(calls(folder)) < 3 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "the same command goes on" in said
    assert run(*words, folder=folder, COUNT=str(folder / "count")).returncode == 0
    assert len(calls(folder)) == 4, "only what hung is compiled again"


def test_a_time_limit(fake: tuple[Path, tuple[str | Path, ...]]) -> None:
    folder, words = fake
    done = run("--timeout", "2", *words, folder=folder, COUNT=str(folder / "count"), HANG="1")
    assert done.returncode == 0
    assert "cap 32: ptxas: took more than 2 s" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("none.ptx",), "no such file"),
        ((PTX, "--vary", "toolkit=1.2"), "no toolkit 1.2"),
        ((PTX, "--vary", "toolkit=/nowhere"), "no ptxas in /nowhere"),
        ((PTX, "--arch", "h100"), "not a real arch"),
        ((PTX, "--vary", "cap=x"), "not a register count"),
        ((PTX, *REAL, "--arch", "sm_10", "--vary", "cap=none"), "nothing could be compiled: ptxas fatal"),
        ((PTX, *REAL, "--vary", "cap=none", "--kernel", "nobody"), "--kernel names none of"),
        (("cd /tmp && nvcc -arch=sm_90 -c x.cu",), "changes to /tmp"),
        ((f"/nowhere/nvcc -arch=sm_90 -c {ROOT / 'fixtures' / 'sources' / 'sweep.cu'}",), "no such compiler here"),
        ((ROOT / "fixtures" / "sources" / "sweep.cu", *REAL), "give --arch"),
    ],
)
def test_errors_are_one_line(
    words: tuple[Any, ...], says: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *map(str, words), "--cache", str(cache)]) == 2
    out, said = capsys.readouterr()
    assert says in said
    assert (out, said.count("\n")) == ("", 1)


# ---- toolkits and front ends ----------------------------------------------------------------------------------------

NVCC = """
words = sys.argv[1:]
pathlib.Path(os.environ["COUNT"]).open("a").write("nvcc " + " ".join(words) + "\\n")
if "--dryrun" in words:
    sys.stderr.write('#$ ptxas -arch=sm_90 -m64 --opt "/tmp/a b.ptx"  -o "kernel.cubin"\\n')
elif "-E" in words:
    print("preprocessed", pathlib.Path(words[-1]).read_text())
else:
    cap = [word for word in words if word.startswith("-maxrregcount")]
    text = ".version 8.0\\n.target sm_90\\n.entry k() { ret; } // " + " ".join(cap) + "\\n"
    pathlib.Path(words[words.index("-o") + 1]).write_text(text)
"""


def test_a_source_goes_through_nvcc_at_each_cap(tmp_path: Path) -> None:
    (tmp_path / "a b.cu").write_text("source")
    kit = toolkit(tmp_path / "kit", "99.1.2", ptxas=PTXAS, nvcc=NVCC)
    line = f"{kit}/bin/nvcc -O2 -gencode arch=compute_80,code=sm_90 -maxrregcount=64 -c 'a b.cu' -o x.o"
    words = (line, "--vary", "cap=32", "--cache", tmp_path / "cache")
    done = run(*words, folder=tmp_path, COUNT=str(tmp_path / "count"))
    assert done.returncode == 0, done.stderr
    reported = calls(tmp_path)
    made = sorted(re.sub(r"-o \S+ ", "", call) for call in reported if "-ptx" in call)
    assert made == [
        f"nvcc -O2 -ptx -gencode arch=compute_80,code=compute_80 -maxrregcount={cap} a b.cu" for cap in (32, 64)
    ]
    compiled = sorted(call for call in reported if call.startswith("-v"))
    assert compiled == [f"-v -arch=sm_90 --opt -maxrregcount={cap} kernel.ptx -o kernel.cubin" for cap in (32, 64)]
    run(*words, folder=tmp_path, COUNT=str(tmp_path / "count"))
    assert len([call for call in calls(tmp_path) if "-ptx" in call]) == 2, "PTX is kept by its preprocessed source"
    (tmp_path / "a b.cu").write_text("another")
    run(*words, folder=tmp_path, COUNT=str(tmp_path / "count"))
    assert len([call for call in calls(tmp_path) if "-ptx" in call]) == 4


def test_compile_commands_name_the_unit_of_a_kernel_and_its_command(tmp_path: Path) -> None:
    """The one whose object has the kernel; of objects that are not built, the sources' text decides."""
    kit = toolkit(tmp_path / "kit", "99.1.2", ptxas=PTXAS, nvcc=NVCC)
    (tmp_path / "src").mkdir()
    (tmp_path / "build").mkdir()
    for name, text in (("a", "void k() {}"), ("b", "void tiny_other() {}"), ("c", "void other() {}")):
        (tmp_path / "src" / f"{name}.cu").write_text(text)
    shutil.copy(FIXTURES / "binary" / "tiny-lz4-13.5.o", tmp_path / "build" / "c.o")
    entries = [
        {
            "directory": "build",
            "command": f"{kit}/bin/nvcc -arch=sm_90 -I../include -c ../src/{name}.cu -o {name}.o",
            "file": f"../src/{name}.cu",
        }
        for name in "abc"
    ]
    listed = tmp_path / "compile_commands.json"
    listed.write_text(json.dumps([*entries, {"directory": "/", "arguments": ["cc", "-c", "x.c"], "file": "x.c"}]))
    assert [each.file for each in plan.units(str(listed), ["tiny<*>", "tiny"])] == [
        str(tmp_path / folder) for folder in ("build/../src/b.cu", "build/../src/c.cu")
    ]
    words = ("compile_commands.json", "--kernel", "k", "--vary", "cap=none", "--cache", "none")
    done = run(*words, folder=tmp_path, COUNT=str(tmp_path / "count"))
    assert done.returncode == 0, done.stderr
    assert any("-I../include" in call and call.endswith("../src/a.cu") for call in calls(tmp_path))
    for arguments, says in (
        (("compile_commands.json",), "names 3 sources; choose by --kernel GLOB"),
        (("compile_commands.json", "--kernel", "nothing"), "none of 3 sources is known to hold nothing"),
    ):
        done = run(*arguments, folder=tmp_path, COUNT=str(tmp_path / "count"))
        assert done.returncode == 2
        assert says in done.stderr


def test_several_releases_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(KERNEL)
    kits = [toolkit(tmp_path / name, version, ptxas=PTXAS) for name, version in (("one", "98.1.0"), ("two", "99.2.0"))]
    chosen = ",".join(map(str, kits))
    found = curves(
        "k.ptx",
        "--vary",
        f"toolkit={chosen}",
        "--vary",
        "cap=none",
        "--cache",
        "none",
        folder=tmp_path,
        COUNT=str(tmp_path / "c"),
    )
    assert [curve["toolkit"] for curve in found] == ["98.1.0", "99.2.0"]


def test_a_toolkit_is_named_from_here(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(KERNEL)
    toolkit(tmp_path / "kit", "98.1.0", ptxas=PTXAS)
    words = ("k.ptx", "--vary", "cap=none", "--cache", "none")
    for name in ("kit", "./kit/bin", "kit/bin/ptxas"):
        (found,) = curves(*words, "--vary", f"toolkit={name}", folder=tmp_path, COUNT=str(tmp_path / "count"))
        assert not any(point["failure"] for point in found["points"])


def test_a_toolkit_that_compiles_nothing_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(KERNEL)
    good = toolkit(tmp_path / "good", "98.1.0", ptxas=PTXAS)
    bad = toolkit(tmp_path / "bad", "99.2.0", ptxas='sys.exit("ptxas fatal   : no licence")')
    words = ("k.ptx", "--vary", "cap=none", "--cache", "none", "--vary", f"toolkit={good},{bad}")
    done = run(*words, folder=tmp_path, COUNT=str(tmp_path / "count"))
    assert done.returncode == 2
    assert "ptxas 99.2.0 compiled nothing; the points say why" in done.stderr


def test_where_toolkits_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = toolkit(tmp_path / "first", "97.1.0"), toolkit(tmp_path / "second", "98.4.1")
    monkeypatch.setenv("PATH", f"{first}/bin")
    monkeypatch.setenv("CUDA_HOME", str(second))
    versions = [each.version for each in toolkits.installed()]
    assert versions[:2] == ["97.1.0", "98.4.1"]
    assert any(version.startswith(f"{RELEASE}.") for version in versions), "the wheel's"
    assert [each.version for each in toolkits.choose([])] == ["97.1.0"]
    assert [each.version for each in toolkits.choose(["98.4,97.1"])] == ["98.4.1", "97.1.0"]
    assert [each.version for each in toolkits.choose([str(second / "bin" / "ptxas")])] == ["98.4.1"]
    with pytest.raises(UsageError, match=r"no toolkit 9 found \(there are: 97.1.0, 98.4.1"):
        toolkits.choose(["9"])


def test_one_kernel_is_compiled_as_in_its_module(cache: Path) -> None:
    words = (PTX, *REAL, "--arch", "sm_90", "--vary", "cap=32", "--cache", cache)
    of_all = [curve for curve in curves(*words) if curve["name"].startswith("void stencil<4>")]
    assert curves(*words, "--kernel", "stencil<4>") == of_all


def test_a_source_without_any_nvcc_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.cu").touch()
    monkeypatch.setattr(toolkits, "installed", list)
    kit = toolkit(tmp_path / "kit", "99.1.2")
    question = plan.Question(
        units=(unit(str(tmp_path / "a.cu")),), archs=("sm_90",), toolkits=(str(kit),), settings=(AS_IS,)
    )
    with pytest.raises(UsageError, match="needs nvcc"):
        plan.targets(question)
