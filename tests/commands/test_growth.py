"""Cost of a file grows linearly with its size: the worst inputs of each kind that a command reads.

Expressions work inside of one call, where no step can be counted, so the processor's time is taken. None is an error
of the program. ``tests/reading`` has the families of logs and dumps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from spillscan import cli
from tests.counting import costs_its_size

LOG = """\
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Used 40 registers, 376 bytes cmem[0]
"""
PTX = ".version 8.0\n.target sm_80\n"
SASS = """\
\tcode for sm_90
\t\tFunction : f
        /*0000*/                   STL [R1+0x8], R2 ;
        /*0010*/                   EXIT ;
\t\t..........


"""
NVDISASM = """\
\t.headerflags\t@"EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"
\t.section\t.text.f,"ax",@progbits
\t.sectioninfo\t@"SHI_REGISTERS=32"
f:
\t//## File "a.cu", line 77
        /*0000*/                   EXIT ;                                            // |  11    |
"""
JSON = (
    '[{{"SM": {{"version": {{"major": {}, "minor": 0}}}}}}, '
    '[{{"function-name": "f", "start": {}, "sass-instructions": [{{"opcode": "NOP"}}]}}]]'
)
TTIR = "tt.func public @k() {\n"


class Family(NamedTuple):
    """A call, and the files that it reads, of a size."""

    call: str
    size: int
    files: Mapping[str, Callable[[int], str]]


def _scan(name: str, size: int, made: Callable[[int], str]) -> Family:
    return Family(f"scan {name}", size, {name: made})


def _entry(pattern: str) -> str:
    return f"kernels:\n- {{match: '{pattern}', max_registers: 3}}\n"


def _profile(size: int, made: Callable[[int], tuple[str, str]]) -> Family:
    """``made``: a launch's block and registers."""
    head = '"ID","Kernel Name","Block Size","launch__registers_per_thread"\n"","","","register/thread"\n'
    return Family("profile a.csv", size, {"a.csv": lambda n: head + '"0","k()","{}","{}"\n'.format(*made(n))})


FAMILIES: dict[str, Family] = {
    "comments before PTX": _scan("a.ptx", 8, lambda n: "/**/" * n + "x"),
    "blank lines in PTX": _scan("a.ptx", 10_000, lambda n: PTX[:13] + "\n" * n + "x"),
    "entries of PTX without an end": _scan("a.ptx", 40_000, lambda n: PTX + ".entry a\n" * n),
    "products in a line": _scan("a.ttir", 5_000, lambda n: TTIR + "tt.dot " * n),
    "stores in a line": _scan("a.ttir", 5_000, lambda n: TTIR + "tt.store : tensor<" * n),
    **{
        f"{what} of many digits": _scan("a.sass", 1_500, lambda n, at=at: SASS.replace(at, at[:-1] + "9" * n, 1))
        for what, at in {"an arch": "sm_90", "a register": "R2", "a slot": "0x8", "an address": "0000"}.items()
    },
    **{
        f"{what} of nvdisasm's of many digits": _scan(
            "a.sass", 1_500, lambda n, at=at: NVDISASM.replace(at, "9" * n, 1)
        )
        for what, at in {"an arch": "90", "registers": "32", "a line": "77", "live registers": "11"}.items()
    },
    "a start without an end": _scan("a.json", 1, lambda n: JSON.format(9, "1e400")),
    "an arch without an end": _scan("a.json", 1, lambda n: JSON.format("1e400", 0)),
    "a closure of many digits": _scan("a.log", 1_500, lambda n: LOG.replace("'k'", f"'f<'lambda{'9' * n}'(int)>()'")),
    "bounds of many digits": Family(
        "sweep a.ptx --bounds 256x2",
        1_500,
        {"a.ptx": lambda n: f"{PTX}.visible .entry k()\n.maxntid {'9' * n}, 1, 1\n{{ret;}}\n"},
    ),
    "comments without an end": Family(
        "sweep a.ptx --limits 32", 20_000, {"a.ptx": lambda n: f"{PTX}.visible .entry k(){{ret;}}{'/*' * n}"}
    ),
    "launches without a column": Family("profile a.csv", 1, {"a.csv": lambda n: "BlkX,Name\n32,k\n" * n}),
    "launches without an end": Family(
        "profile a.csv", 1, {"a.csv": lambda n: "BlkX,BlkY,BlkZ,DymSMem (MB),Name\n32,1,1,1e400,k\n" * n}
    ),
    "a profile's block of many digits": _profile(2_000, lambda n: (f"({'9' * n}, 1, 1)", "1")),
    "a profile's figure without an end": _profile(400, lambda n: ("(1, 1, 1)", f"1e{n}")),
    "a glob that opens again and again": Family(
        "check a.log", 10_000, {"spillscan.yaml": lambda n: _entry("[!" * n), "a.log": lambda _: LOG}
    ),
    "a dimension of many digits": _scan("a.ttir", 2_000, lambda n: f"{TTIR}tt.store x: tensor<{'1' * n}x!tt.ptr"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call, size, files = FAMILIES[family]
    monkeypatch.chdir(tmp_path)

    def seconds(size: int) -> float:
        for name, made in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(made(size).encode("utf-8", "surrogatepass"))
        begin = time.process_time()
        assert cli.main(call.split(" ")) in (0, 1, 2)
        spent = time.process_time() - begin
        assert "unexpected error" not in capsys.readouterr().err
        return spent

    assert costs_its_size(seconds, size)
