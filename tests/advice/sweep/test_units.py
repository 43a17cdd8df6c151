"""Translation units that arguments name."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from spillscan.advice.sweep.units import Unit, units
from spillscan.output.errors import SpillscanError


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


def test_listed_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source is chosen by the kernels that it mentions; its command runs in its own folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        Path(f"{name}.cu").write_text(f"__global__ void {name}() {{}}")
    listed = [
        {"directory": str(tmp_path), "command": f"nvcc -Iinc -c {name}.cu -o {name}.o", "file": f"{name}.cu"}
        for name in ("one", "two")
    ]
    Path("compile_commands.json").write_text(json.dumps(listed))
    (unit,) = units("compile_commands.json", ["two*"])
    assert (unit.path, unit.words[:3]) == ("two.cu", ("nvcc", "-Iinc", "-c"))
    assert Path(unit.folder).resolve() == tmp_path.resolve()
    for globs, why in (([], "lists 2 sources"), (["three"], "no source")):
        with pytest.raises(SpillscanError, match=why):
            units("compile_commands.json", globs)


@pytest.mark.parametrize(
    ("text", "why"),
    [("gone.ptx", "no such file"), ("g++ -c k.cc", "does not call nvcc"), ("clang -x cuda k.cu", "does not call nvcc")],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(SpillscanError, match=why):
        units(text, [])


@pytest.mark.parametrize(("glob", "chosen"), [("_Z3twoILi8EEvPf", "two.cu"), ("two<8*>", "two.cu"), ("one", "one.cu")])
def test_a_kernel_without_an_object_is_found_by_its_name(
    glob: str, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.cu").write_text("__global__ void one() {}")
    Path("two.cu").write_text("template <int N> __global__ void two(float* a) {}")
    listed = [
        {"directory": ".", "command": f"nvcc -c {name} -o {name}.o", "file": name} for name in ("one.cu", "two.cu")
    ]
    Path("compile_commands.json").write_text(json.dumps(listed))
    assert [each.path for each in units("compile_commands.json", [glob])] == [chosen]
