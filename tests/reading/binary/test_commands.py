"""Commands take binaries like any other input."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spillscan import scan
from tests.conforming import conforms
from tests.conftest import FIXTURES, run
from tests.reading.binary.support import stored


def put(folder: Path, name: str, as_name: str = "") -> Path:
    path = folder / (as_name or name)
    path.write_bytes(stored(name))
    return path


def document(*arguments: str | Path, status: int = 0) -> dict[str, list[dict[str, object]]]:
    done = run("scan", *arguments, "-f", "json")
    assert done.returncode == status, done.stderr
    found: dict[str, list[dict[str, object]]] = json.loads(done.stdout)
    return found


def test_scan_writes_the_same_json(tmp_path: Path) -> None:
    binary = document(put(tmp_path, "sass-sm_90a-13.5.cubin"))
    conforms(binary)
    log = document(FIXTURES / "demo" / "head.log")
    assert binary["kernels"][0].keys() == log["kernels"][0].keys()
    assert binary["kernels"][0]["sass"]


def test_a_table_of_a_binary_needs_no_grammar(tmp_path: Path) -> None:
    binary = put(tmp_path, "sass-sm_80-12.3.cubin")
    script = f"import sys; from spillscan.cli import main; main(['scan', {str(binary)!r}]); "
    unwanted = {"lark", "pandas"} | ({"numpy.ma"} if np.__version__ >= "2" else set())  # which version 1 loads itself
    script += f"assert not {unwanted} & set(sys.modules), sorted(sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "160" in done.stdout  # spilled bytes


def test_a_snapshot_keeps_launch_bounds(tmp_path: Path) -> None:
    binary = put(tmp_path, "bounds-13.5.cubin")
    run("scan", binary, "-f", f"json:{tmp_path / 'build.json'}")
    kept, fresh = (
        {kernel.key.symbol: kernel.launch_bounds for kernel in scan(path).kernels}
        for path in (tmp_path / "build.json", binary)
    )
    assert kept == fresh
    assert any(fresh.values())


def test_launch_bounds_are_the_launch(tmp_path: Path) -> None:
    output = run("occupancy", put(tmp_path, "bounds-13.5.cubin")).stdout.decode()
    assert "block size from its launch bounds" in " ".join(output.split())


def test_check_finds_spills(tmp_path: Path) -> None:
    done = run("check", put(tmp_path, "sass-sm_90a-13.5.cubin"))
    assert done.returncode == 1
    assert b"[spill]" in done.stdout
    assert run("check", put(tmp_path, "plain-13.5.o")).returncode == 0


def test_check_does_not_pass_unreadable_input(tmp_path: Path) -> None:
    path = put(tmp_path, "plain-13.5.o")
    data = bytearray(path.read_bytes())
    second = data.rindex(b"\x7fELF")
    data[second + 40 : second + 48] = b"\xff" * 8
    path.write_bytes(data)
    done = run("check", path)
    assert done.returncode == 2
    assert b"offset 0x" in done.stdout


def test_diff_of_two_binaries(tmp_path: Path) -> None:
    before, after = put(tmp_path, "sass-sm_80-12.3.cubin"), put(tmp_path, "sass-sm_80-13.5.cubin")
    done = run("diff", before, after)
    assert done.returncode == 0
    assert b"6 kernels, 1 device function" in done.stdout  # a callee has a record, too
    assert b"added" in run("diff", before, put(tmp_path, "plain-13.5.o")).stdout
    assert run("diff", after, after, "--fail-on", "policy").returncode == 0


def test_log_and_binary_are_joined_without_a_contradiction(tmp_path: Path) -> None:
    path = put(tmp_path, "sass-sm_90a-13.5.cubin")
    build = scan([FIXTURES / "sass" / "ptxas-13.5.log", path])
    joined = [kernel for kernel in build.kernels if kernel.key.arch == "sm_90a"]
    assert joined
    assert not [issue for issue in build.issues if issue.severity != "note"]
    assert all(kernel.sass is not None for kernel in joined if kernel.role == "entry")
    assert all(kernel.usage.constant_bytes for kernel in joined if kernel.role == "entry")


@pytest.mark.parametrize("order", [("kept", "dropped"), ("dropped", "kept")])
def test_a_kernel_of_two_programs_is_joined_with_its_own_code(tmp_path: Path, order: tuple[str, str]) -> None:
    logs = [FIXTURES / "ptxas" / f"roles-{name}-13.5.log" for name in ("kept", "dropped")]
    binaries = [put(tmp_path, f"roles-{name}-sm_90a-13.5.cubin") for name in order]
    build = scan([*logs, *binaries])
    joined = [kernel for kernel in build.kernels if kernel.key.arch == "sm_90a" and kernel.role == "entry"]
    both = [kernel for kernel in joined if kernel.short_name in ("too_many", "three_roles")]
    assert len(both) == 4
    assert not [issue for issue in build.issues if issue.code == "registers-mismatch"]
    for kernel in both:
        log, code = kernel.origins
        assert ("kept" in log.input) == ("kept" in code.input), kernel.origins


def test_a_folder_of_cubins_and_other_files(tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "ABCDEF"
    cache.mkdir(parents=True)
    put(cache, "sass-sm_80-13.5.cubin", "kernel.cubin")
    (cache / "kernel.json").write_text("{}")
    (cache / "kernel.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    shutil.copy("/bin/true", cache / "launcher.so")
    build = scan(tmp_path / "cache")
    assert build.kernels
    assert not build.issues


def test_a_binary_through_a_pipe() -> None:
    done = run("scan", "-", "-f", "json", stdin=stored("zstd-13.5.o"))
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["kernels"]) == 10


def test_a_binary_without_gpu_code() -> None:
    done = run("scan", "/bin/true")
    assert done.returncode == 2
    assert b"without any GPU code" in done.stderr


def test_show_needs_no_tool(tmp_path: Path) -> None:
    done = run("show", "spills_wide", put(tmp_path, "sass-sm_90a-13.5.cubin"), "--top", "2")
    assert done.returncode == 0
    assert b"classified by ptxas annotations" in done.stdout
    assert b"R1+0x" in done.stdout


def test_a_linked_library_overrules_objects(tmp_path: Path) -> None:
    put(tmp_path, "relocatable-13.5.a")
    assert {kernel.final for kernel in scan(tmp_path).kernels} == {False}
    put(tmp_path, "linked-13.5.so")
    build = scan(tmp_path)
    assert {kernel.final for kernel in build.kernels} == {None}
    assert len({kernel.key.symbol for kernel in build.kernels}) == len(build.kernels)


def test_a_log_of_relocatable_code_takes_the_linked_values(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    lines = (FIXTURES / "nvcc" / "rdc-13.5.log").read_bytes().splitlines(keepends=True)
    command = b"nvcc -rdc=true -c -Xptxas -v rdc.cu -o rdc.o\n"
    log.write_bytes(command + b"".join(line for line in lines if b"nvlink" not in line))
    alone = {kernel.key.symbol: kernel for kernel in scan(log).kernels if kernel.key.arch == "sm_80"}
    joined = scan([log, put(tmp_path, "linked-13.5.so")])
    checked = 0
    for kernel in joined.kernels:
        if kernel.role == "entry" and kernel.key.arch == "sm_80" and alone[kernel.key.symbol].final is False:
            assert kernel.final is True
            assert kernel.usage.spills == alone[kernel.key.symbol].usage.spills
            checked += 1
    assert checked


def test_an_object_is_the_unit_of_its_kernels(tmp_path: Path) -> None:
    build = scan(put(tmp_path, "plain-13.5.o"))
    assert {kernel.key.unit for kernel in build.kernels} == {"plain-13.5.o"}


def test_undetermined_spills_have_bounds(tmp_path: Path) -> None:
    binary = put(tmp_path, "callees-12.4.cubin")
    (recursive,) = (kernel for kernel in scan(binary).kernels if "recursive" in kernel.key.symbol)
    assert recursive.spills is None
    assert recursive.spill_bounds == ((0, 8), (56, 52))
    text, markdown = (run("scan", binary, "-f", form).stdout.decode() for form in ("text", "markdown"))
    assert re.search(r"recursive \(function\) .* 0 to 56 +8 to 52 ", text)
    assert "| `recursive (function)` | `sm_80` | - | 0 to 56 | 8 to 52 |" in markdown
