"""The last lines of ``check``: how to accept what fails, run as pasted, and what was not checked."""

from __future__ import annotations

import os
import re
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan.commands._footer import not_checked
from spillscan.judging.policy.effective import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.judging.rules import check
from spillscan.model import Build, Issue, Kernel, KernelKey, Origin, Usage
from spillscan.model.code import SassStats
from spillscan.model.local import CostLine, Group, LocalTraffic, SourceLine
from tests.conftest import FIXTURES, run, sized

HEAD = FIXTURES / "demo" / "head.log"


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--launch", "*=1024", "--set", "max_registers=32"),
        ("--arch", "sm_80", "--severity", "stack-growth=error"),
        ("--set", "min_blocks_per_sm=8", "--launch", "gemm*=256", "--accept", "unknown-blocks"),
    ],
)
def test_printed_acceptances_work(options: tuple[str, ...], tmp_path: Path) -> None:
    """The pasted command accepts all; the entry one finding less."""
    (tmp_path / "build.log").write_bytes(HEAD.read_bytes())
    call = ("check", "build.log", *options)
    red = run(*call, cwd=tmp_path)
    assert red.returncode == 1
    text = red.stdout.decode()
    command = re.search(r"^accept \(all findings\): spillscan (.*)$", text, re.MULTILINE)
    assert command
    assert run(*shlex.split(command[1]), cwd=tmp_path).returncode == 0
    assert run(*call, "--baseline", "spillscan-baseline.jsonl", cwd=tmp_path).returncode == 0
    assert text.count("accept (first one only)") == text.count("\n  then check with --baseline ") == 1
    entry = re.search(r"^accept \(first one only\): add to spillscan.yaml:\n  (.*)$", text, re.MULTILINE)
    assert entry
    (tmp_path / "spillscan.yaml").write_text(entry[1] + "\n")
    found = run(*call, cwd=tmp_path).stdout.decode()
    assert found.count(": error: ") < text.count(": error: ")
    assert ("add to `accept` in spillscan.yaml:\n  {" in found) is (": error: " in found)
    assert "suppressed by `accept`: 1 finding" in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Used 40 registers, 512 bytes spill stores\n", "spills at least 512 B (stores); the total is unknown"),
        ("Used 40 registers, 64 bytes spill loads, 8 bytes smem\n", "spills at least 64 B (loads); the total"),
        ("Used 40 registers, 8 bytes spill stores, 4 bytes spill loads\n", "spills 8 B stores, 4 B loads"),
    ],
)
def test_a_spill_without_a_name_fails_and_cannot_be_accepted(text: str, said: str, tmp_path: Path) -> None:
    """Nor does an entry accept the spills of all kernels in its place."""
    (tmp_path / "build.log").write_text(f"ptxas info    : {text}")
    red = run("check", "build.log", cwd=tmp_path)
    assert red.returncode == 1
    shown = red.stdout.decode()
    assert said in shown
    assert "accept: not possible without the kernel's name; pass the whole log" in shown
    assert "accept (" not in shown


def test_a_name_like_an_option_is_quoted_in_printed_commands(tmp_path: Path) -> None:
    (tmp_path / "--top").write_bytes(HEAD.read_bytes())
    text = run("check", "--", "--top", cwd=tmp_path).stdout.decode()
    command = re.search(r"^accept \(all findings\): spillscan (.*)$", text, re.MULTILINE)
    assert command
    assert run(*shlex.split(command[1]), cwd=tmp_path).returncode == 0


def kernel(**facts: Any) -> Kernel:
    usage = Usage(registers=32, spill_store_bytes=facts.pop("spills", 0), spill_load_bytes=0)
    return Kernel(
        key=KernelKey(symbol=facts.pop("symbol", "k"), arch="sm_80", unit=facts.pop("unit", "")),
        role=facts.pop("role", "entry"),
        usage=usage,
        **facts,
    )


def read(line: int = 0) -> SassStats:
    """Machine code whose spills have a source line, or none."""
    source = SourceLine(file="k.cu", line=line)
    lines = (CostLine(kind="spill", source=source, accesses=2, bytes=8, depth=0, cost=8, share=1.0),) if line else ()
    local = LocalTraffic(kept=((Group("spill", True, 4, 0, False), 2),), kept_lines=lines, evidence="annotation")
    return SassStats(instructions=8, code_bytes=128, opcodes=(("STL", 2),), local=local)


@pytest.mark.parametrize(
    ("kernels", "launches", "said"),
    [
        ([kernel()], (), ["blocks per SM of 1 kernel (block size unknown; --launch 'GLOB=THREADS')"]),
        ([kernel(), kernel(symbol="a")], ("a=64",), ["blocks per SM of 1 of 2 kernels (block size unknown; --launch "]),
        ([kernel()], ("*=64",), []),
        ([kernel(role="function")], (), []),
        ([kernel(final=False)], ("*=64",), ["final registers of 1 kernel (known after the device link)"]),
        ([kernel(spills=8)], ("*=64",), ["source lines of 1 spilling kernel (compile with -lineinfo and pass the"]),
        ([kernel(spills=8, sass=read())], ("*=64",), ["source lines of 1 spilling kernel (compile with -lineinfo)"]),
        (
            [kernel(spills=8, sass=read(), final=True), kernel(spills=8)],
            ("*=64",),
            ["source lines of 2 spilling kernels (compile with -lineinfo and pass the binary"],
        ),
        ([kernel(spills=8, sass=read(line=7))], ("*=64",), []),
        ([kernel(spills=8, unit="stale.o")], ("*=64",), []),
    ],
)
def test_unchecked_values(kernels: list[Kernel], launches: tuple[str, ...], said: list[str]) -> None:
    stale = Issue(code="changed-input", message="changed", origin=Origin(input="stale.o"))
    build = Build(kernels=tuple(kernels), issues=(stale,))
    found = [*not_checked(build, Policy((from_options({}, (), launches),)))]
    assert len(found) == len(said)
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True))


def test_blocks_of_a_kernel_that_cannot_launch_are_no_open_end() -> None:
    build = Build(kernels=(replace(kernel(), usage=Usage(registers=32, shared_bytes=300_000)),))
    policy = Policy((from_options({}),))
    assert [*not_checked(build, policy, check(build, policy).findings)] == []


@pytest.mark.parametrize(("level", "said"), [("error", 1), ("note", 1), ("off", 0)])
def test_machine_code_is_not_checked(level: str, said: int) -> None:
    policy = Policy((from_options({}, (f"other-code={level}",), ("*=64",)),))
    lines = [*not_checked(Build(kernels=(kernel(),)), policy)]
    assert len(lines) == said
    assert all(line.startswith("machine code [other-code] (`spillscan diff") for line in lines)


def test_dynamic_stacks_are_not_checked_by_a_limit_on_logs() -> None:
    limited = Policy((from_options({"max_stack_bytes": "64"}, (), ("*=64",)),))
    (line,) = not_checked(Build(kernels=(kernel(),)), limited)
    assert line == "dynamic stack (alloca) of 1 kernel (not every log reports it; pass the binary, too)"


@pytest.mark.parametrize("kind", sized(["FIFO", "folder"], ["FIFO", "socket", "device", "folder"]))
@pytest.mark.parametrize("role", ["input", "policy", "baseline", "output", "written baseline", "init"])
def test_other_than_files_are_refused_at_once(
    kind: str, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if kind == "FIFO":
        os.mkfifo("odd")
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind("odd")
    elif kind == "device":
        Path("odd").symlink_to("/dev/zero")
    else:
        Path("odd").mkdir()
    if (role, kind) == ("input", "folder"):
        return  # its files are read
    if role == "init":
        Path("spillscan.yaml").symlink_to("odd")
    call: list[str | Path] = {
        "input": ["check", "odd"],
        "policy": ["check", HEAD, "--config", "odd"],
        "baseline": ["check", HEAD, "--baseline", "odd"],
        "output": ["check", HEAD, "-f", "json:odd"],
        "written baseline": ["baseline", "write", HEAD, "-o", "odd"],
        "init": ["init", HEAD, "--build", "make"],
    }[role]
    done = run(*call, cwd=tmp_path, timeout=30)
    assert done.returncode == 2
    assert done.stderr.decode().count("\n") == 1
    assert " is a " in done.stderr.decode()
