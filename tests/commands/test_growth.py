"""What a file costs grows with its size, whatever stands in it: each kind that a command reads, written to be dear.

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
TTIR = "tt.func public @k() {\n"


class Family(NamedTuple):
    """A call, and the files that it reads, of a size."""

    call: str
    size: int
    files: Mapping[str, Callable[[int], str]]


def _scan(name: str, size: int, made: Callable[[int], str]) -> Family:
    return Family(f"scan {name}", size, {name: made})


FAMILIES: dict[str, Family] = {
    "comments before PTX": _scan("a.ptx", 8, lambda n: "/**/" * n + "x"),
    "blank lines in PTX": _scan("a.ptx", 10_000, lambda n: PTX[:13] + "\n" * n + "x"),
    "entries of PTX without an end": _scan("a.ptx", 40_000, lambda n: PTX + ".entry a\n" * n),
    "products in a line": _scan("a.ttir", 5_000, lambda n: TTIR + "tt.dot " * n),
    "stores in a line": _scan("a.ttir", 5_000, lambda n: TTIR + "tt.store : tensor<" * n),
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
