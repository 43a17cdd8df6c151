"""CUDA sources and command lines, and how a setting reaches each: by the header, or by its PTX alone.

In each source ``BOUNDS`` is where a person writes the bounds.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

from spillscan.advice.sweep import ptx
from spillscan.advice.sweep.compiling import Workshop
from spillscan.advice.sweep.curves import points_at
from spillscan.advice.sweep.settings import AS_IS, Setting, release
from spillscan.advice.sweep.units import units
from tests.advice.sweep.support import Metrics, metrics_of

BODY = """{
  float x[64];
  for (int i = 0; i < 64; i++) x[i] = a[i * n];
  for (int j = 0; j < n; j++)
    for (int i = 0; i < 64; i++) x[i] = x[i] * a[j] + x[(i + 1) % 64];
  for (int i = 0; i < 64; i++) a[i] = x[i];
}
"""
OWN = "__launch_bounds__(256, 2)"
SETTINGS = (Setting(limit=40), Setting(threads=512, blocks=3))


class Source(NamedTuple):
    """One source, and the words of its command."""

    text: str
    by_header: bool = True
    """Whether the header applies; else its PTX is edited."""
    command: str = "-arch=sm_80 -c k.cu -o k.o"
    files: tuple[tuple[str, str], ...] = ()
    """Further files of its folder."""


PLAIN = f"__global__ void BOUNDS k(float* a, int n) {BODY}"
SOURCES = {
    "after": Source(PLAIN),
    "before": Source(f"BOUNDS __global__ void k(float* a, int n) {BODY}"),
    "template": Source(
        f"template <class T> __global__ void BOUNDS k(T* a, int n) {BODY}\n"
        "template __global__ void k<float>(float*, int);"
    ),
    "C, static, namespace": Source(
        f'extern "C" __global__ void BOUNDS one(float* a, int n) {BODY}'
        f"namespace m {{ namespace {{ static __global__ void BOUNDS two(float* a, int n) {BODY} }}\n"
        "void run(float* a) { two<<<1, 32>>>(a, 1); } }"
    ),
    "attribute": Source(PLAIN.replace("__global__", "__attribute__((global))"), by_header=False),
    "undefined": Source("#undef __global__\n#define __global__ __attribute__((global))\n" + PLAIN, by_header=False),
    "attribute of bounds": Source(PLAIN.replace("BOUNDS", "__attribute__((launch_bounds(256, 2)))"), by_header=False),
    "own macro": Source(
        "#undef __launch_bounds__\n#define __launch_bounds__(t, b) __attribute__((launch_bounds(t, b)))\n" + PLAIN,
        by_header=False,
    ),
    "included by the command": Source(
        "", command="-include inc.cuh -arch=sm_80 -c k.cu -o k.o", files=(("inc.cuh", PLAIN),)
    ),
}
COMMANDS = {
    "relocatable": "-rdc=true -arch=sm_80 -c k.cu -o k.o",
    "device code": "-dc -arch=sm_80 k.cu -o k.o",
    "two archs": "-gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=[sm_80,compute_80] -c k.cu -o k.o",
    "cubin": "-arch=sm_80 -cubin k.cu -o k.cubin",
    "library": "-arch=sm_80 k.cu -shared -Xcompiler -fPIC -o k.so",
    "several sources": "-arch=sm_80 other.cu k.cu -shared -o k.so",
    "options file": "--options-file all.rsp",
    "limits": "-maxrregcount 64 -m 64 -Xptxas -maxrregcount=48 -arch=sm_80 -c k.cu",
    "threads": "--threads 4 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_86,code=sm_86 -c k.cu",
    "all threads": "-t0 -arch=sm_80 -c k.cu",
    "dependencies": "-MD -MF k.d -arch=sm_80 -c k.cu -o k.o",
    "other name": "-x cu -arch=sm_80 -c 'a b'",
    "quotes": """-DTEXT='"a b"' -I'in c' -Werror all-warnings -lineinfo -arch=sm_80 -c k.cu""",
}
"""Arguments of nvcc for a plain source, by the case that they test."""
FILES = (
    ("other.cu", "__global__ void other(float* a) { *a = 1; }"),
    ("all.rsp", "-arch=sm_80 -maxrregcount=32 -c k.cu -o k.o"),
    ("a b", PLAIN),
    ("in c/used.cuh", ""),
)


def wrong_with(source: Source, nvcc: str, folder: Path) -> list[str]:
    """Differences between each setting of a source and the same change made by hand; empty if there are none."""
    for name, text in (*FILES, *source.files, ("k.cu", source.text)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.replace("BOUNDS", OWN))
    before = {each.name for each in folder.iterdir()}
    found = []
    with Workshop() as workshop:
        (unit,) = units(f"{nvcc} {source.command}", ())
        for module in workshop.modules(unit._replace(folder=str(folder)), ("sm_80",)):
            symbols = dict.fromkeys(each for each in module.kernels if each != "_Z5otherPf")
            old = release(module.version) < (12, 4)
            for setting in SETTINGS if symbols else ():
                truth = by_hand(source, setting, nvcc, folder, module.text, old=old)
                for symbol, point in points_at(module, symbols, setting).items():
                    made, kernel = None, point.kernel
                    if kernel is not None and kernel.spills is not None:
                        made = kernel.usage.registers, kernel.usage.stack_bytes, *kernel.spills
                    wanted = truth[_unhashed(symbol)]
                    if made != wanted or (point.in_ptx is source.by_header and not old) or wanted[0] > 40:
                        found.append(f"{setting.label} {symbol}: {made}, by hand {wanted}, {point.in_ptx=}")
            as_is = points_at(module, symbols, AS_IS)
            found += [f"as is: {point.failure}" for point in as_is.values() if point.failure]
    left = {each.name for each in folder.iterdir()} - before - {"by-hand"}
    return found + [f"left behind: {each}" for each in left]


def by_hand(source: Source, setting: Setting, nvcc: str, folder: Path, text: str, *, old: bool) -> Metrics:
    """The source with the setting's bounds as a person writes them; of PTX alone, the PTX with them."""
    place = folder / "by-hand"
    place.mkdir(exist_ok=True)
    (place / "k.ptx").write_text(ptx.rewritten(text, setting))
    if source.by_header:
        written = "" if old and setting.limit else setting.source
        for name, content in (*FILES, *source.files, ("k.cu", source.text)):
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text(content.replace("BOUNDS", written))
        limit = [f"-maxrregcount={setting.limit}"] if old and setting.limit else []
        words = [*shlex.split(f"{nvcc} {source.command}"), *limit, "-t", "1", "-Xptxas", "-v"]
    else:
        words = [str(Path(shlex.split(nvcc)[0]).parent / "ptxas"), "-v", "-arch=sm_80", "k.ptx", "-o", "k.cubin"]
    done = subprocess.run(words, cwd=place, check=True, capture_output=True, text=True)
    others = r"(?s)ptxas info    : Compiling entry function '\w+' for 'sm_(?:75|86)'.*?bytes cmem.*?\n"
    return {_unhashed(symbol): each for symbol, each in metrics_of(re.sub(others, "", done.stderr)).items()}


def _unhashed(symbol: str) -> str:
    """A symbol without the hash of a path that static kernels have."""
    return re.sub("_[0-9a-f]{8}_", "_", symbol)
