"""Translation units that arguments name."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.advice.sweep.trials import _module
from spillscan.advice.sweep.units import Unit, units
from spillscan.builds.record import Call
from spillscan.output.errors import SpillscanError
from tests.builds.made import call, run_file


@pytest.mark.parametrize(
    ("command", "path", "words"),
    [
        ("nvcc -c k.cu -o k.o", "k.cu", "nvcc -c k.cu -o k.o"),
        ("ccache /opt/cuda/bin/nvcc -DX='a b' -c k.cu", "k.cu", "/opt/cuda/bin/nvcc -DX='a b' -c k.cu"),
        ("CUDA=1 nvcc -x cu -c noext", "noext", "nvcc -x cu -c noext"),
        ("nvcc --options-file all.rsp", "all.rsp", "nvcc --options-file all.rsp"),
        ("nvcc -maxrregcount 64 -m 64 -c k.cu", "k.cu", "nvcc -maxrregcount 64 -m 64 -c k.cu"),
    ],
)
def test_commands_stay_as_they_are(
    command: str, path: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert units(command, []) == [Unit(path, tuple(shlex.split(words)))]


@pytest.mark.parametrize(
    ("glob", "chosen", "why"),
    [
        ("first*", "one", ""),
        ("_Z6secondPf", "two", ""),
        ("", "", "no kernel chosen from 2 sources"),
        ("third", "", "a run has no compilation of third"),
    ],
)
def test_recorded_commands(glob: str, chosen: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is chosen by the kernels that it reported; its command runs in its own folder."""
    monkeypatch.chdir(tmp_path)
    run_file(Path("a run"), *(_call(tmp_path / "build", *each) for each in (("one", "first"), ("two", "second"))))
    if why:
        with pytest.raises(SpillscanError, match=why):
            units("a run", [glob] if glob else [])
    else:
        words = f"/cuda/bin/nvcc -Iinc -c {chosen}.cu -o {chosen}.o"
        found = units("a run", [glob])
        assert found == [Unit(f"build/{chosen}.cu", tuple(words.split()), str(tmp_path / "build"), f"build/{chosen}.o")]


@pytest.mark.parametrize("configuration", ["Debug", "Release"])
def test_the_call_that_wrote_the_kernels_object_is_tried(
    configuration: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = _call(tmp_path, "one", "first")
    run_file(Path("a run"), *(replace(call, wrote=(f"{name}/one.o",)) for name in ("Debug", "Release")))
    (kernel,) = (each for each in scan("a run").kernels if each.key.unit == f"{configuration}/one.o")
    workshop: Any = SimpleNamespace(modules=lambda unit, _: [SimpleNamespace(unit=unit, kernels=[kernel.key.symbol])])
    assert _module(kernel, "a run", workshop, ()).unit.object == f"{configuration}/one.o"


def _call(folder: Path, name: str, kernel: str) -> Call:
    report = f"ptxas info    : Compiling entry function '_Z{len(kernel)}{kernel}Pf' for 'sm_80'\n"
    report += "ptxas info    : Used 8 registers\n"
    words = f"ccache /cuda/bin/nvcc -Iinc -c {name}.cu -o {name}.o"
    return call(folder, words.split(), sources=(f"{name}.cu",), wrote=(f"{name}.o",), report=report)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gone.ptx", "no such file"),
        (__file__, "neither PTX"),
        ("g++ -c k.cc", "does not call nvcc"),
        ("clang -x cuda k.cu", "does not call nvcc"),
    ],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(SpillscanError, match=why):
        units(text, [])


@pytest.mark.parametrize(
    ("words", "bare"),
    [
        ("nvcc -c k.cu", True),
        ("nvcc -gencode=arch=compute_80,code=sm_80 -c k.cu", True),
        ("nvcc -DX=1 -c k.cu", False),
        ("", False),  # PTX
    ],
)
def test_a_source_without_a_command_has_no_options(words: str, bare: bool) -> None:
    """The heading of a sweep says so."""
    assert Unit("k.cu", tuple(words.split())).is_bare is bare
