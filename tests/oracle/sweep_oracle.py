"""Holds `spillscan sweep` against compilers that are run directly. Not part of `make test`.

    python -m tests.oracle.sweep_oracle [--cache DIR] [--quick] [--only own|cub|wheel|nvcc …]

Kernels of our sources, of generated ones, of CUB, and of xgboost's wheel, by three releases of ptxas for four
archs: registers, stack and both spill figures of every kernel at every point must be what `ptxas -v` prints when it is
run on the file by hand, read here by three regular expressions. Launch bounds are held against ptxas's own options for
them (`-maxntid`, `-minnctapersm`, `-override-directive-values`), CUDA sources and command lines against
`nvcc -maxrregcount -cubin`. Exit status 1 where anything differs.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "fixtures"))

RELEASES = ("12.4", "12.9", "13.5")
ARCHS = ("sm_75", "sm_80", "sm_89", "sm_90")
CAPS = (32, 64, 128)
BOUNDS = ("128x8", "512x9")
NVRTC = "sweep plain spill bounds fp64 local calls memory recursion sass unit_00 unit_01"
CUB = """
#include <cub/cub.cuh>
void every(float* in, float* out, int n, void* work, size_t& size) {
  cub::DeviceReduce::Sum(work, size, in, out, n);
  cub::DeviceScan::InclusiveSum(work, size, in, out, n);
  cub::DeviceRadixSort::SortKeys(work, size, in, out, n);
}
"""
WHEEL, LIBRARY = "xgboost==3.2.0", "lib/libxgboost.so"
SHIPPED = ("libxgboost.1.sm_120.ptx", "libxgboost.30.sm_120.ptx")
"""PTX in it, for sm_120 alone."""
SHIPPED_RELEASES, SHIPPED_ARCHS = ("12.9", "13.0", "13.5"), ("sm_120", "sm_121")

PARTS = ("own", "cub", "wheel", "nvcc")

_ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")

Figures = dict[str, tuple[int, int, int, int]]
"""(registers, stack, spill stores, spill loads) by symbol."""


def main() -> int:
    """Compile everything twice, and compare."""
    from maker.toolchains import Toolchains

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--quick", action="store_true", help="one release, one arch and two caps of each")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; repeatable (default: all)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    tools = Toolchains(ROOT / "fixtures" / "cases.yaml", arguments.cache)
    less = slice(-1, None) if arguments.quick else slice(None)
    caps = CAPS[:2] if arguments.quick else CAPS
    parts = arguments.only or PARTS
    start = time.monotonic()
    counts: Counter[str] = Counter()
    kernels: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="sweep-oracle-") as name:
        folder = Path(name)
        modules = [(module, RELEASES, ARCHS) for module in nvrtc(tools, folder)] if "own" in parts else []
        if "cub" in parts:
            modules += [(module, RELEASES, ARCHS) for module in cub(tools, folder)]
        if "wheel" in parts:
            modules += [(module, SHIPPED_RELEASES, SHIPPED_ARCHS) for module in wheel(tools, folder)]
        for number, (module, releases, on) in enumerate(modules, 1):
            for release in releases[less]:
                check_ptx(module, {release: tools.root(release)}, on[less], caps, arguments.jobs, counts, kernels)
                print(
                    f"{time.monotonic() - start:6.0f} s, module {number} of {len(modules)}: {module.name} by {release}:"
                    f" {len(kernels):,} kernels, {dict(counts)}",
                    flush=True,
                )
        if "nvcc" in parts:
            check_sources(tools, folder, caps, arguments.jobs, counts)
    print(
        f"{len(kernels):,} kernels in {time.monotonic() - start:.0f} s: "
        + ", ".join(f"{count:,} {what}" for what, count in counts.items())
    )
    return 1 if any(what.startswith("wrong") for what in counts) or not counts else 0


def nvrtc(tools: object, folder: Path) -> Iterable[Path]:
    """Our sources as PTX that every release reads."""
    from maker.cases import Case
    from maker.kinds import Workshop

    sources = tuple(f"{stem}.cu" for stem in NVRTC.split())
    case = Case(file="", release="12.9", archs=(), run=(), sources=sources, shows="", ptx="nvrtc-11.7 compute_70")
    shop = Workshop(case, tools, ROOT / "fixtures", folder / "nvrtc")  # type: ignore[arg-type]
    return [shop.folder / f"{stem}.ptx" for stem in NVRTC.split()]


def cub(tools: object, folder: Path) -> Iterable[Path]:
    """CUB's algorithms by nvcc 13.5, marked for an older PTX release, of which they need no more."""
    source, target = folder / "cub.cu", folder / "cub.ptx"
    source.write_text(CUB)
    subprocess.run([nvcc(tools, "13.5"), "-arch=sm_75", "-ptx", source, "-o", target], check=True)
    target.write_text(re.sub(r"(?m)^\.version .*", ".version 8.4", target.read_text()))
    return [target]


def wheel(tools: object, folder: Path) -> Iterable[Path]:
    """PTX that a public wheel ships."""
    from maker.toolchains import download

    where = tools.root("sass-13.5") / "bin" / "cuobjdump"  # type: ignore[attr-defined]
    folder_of_wheels = tools.folder / "wheels"  # type: ignore[attr-defined]
    download(WHEEL, folder_of_wheels)
    with zipfile.ZipFile(next(folder_of_wheels.glob(WHEEL.replace("==", "-") + "-*linux*.whl"))) as archive:
        member = next(each for each in archive.namelist() if each.endswith(LIBRARY))
        library = Path(archive.extract(member, folder))
    for name in SHIPPED:
        subprocess.run([where, "-xptx", name, library], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return [folder / name for name in SHIPPED]


def nvcc(tools: object, release: str) -> Path:
    """The nvcc of a release."""
    return tools.root(release) / "bin" / "nvcc"  # type: ignore[attr-defined,no-any-return]


def check_ptx(
    module: Path,
    homes: dict[str, Path],
    archs: Iterable[str],
    caps: Iterable[int],
    jobs: int,
    counts: Counter[str],
    kernels: set[str],
) -> None:
    """One file: each release, arch and point by hand, and all of them by one sweep."""
    words = ["--vary", f"cap={','.join(map(str, caps))}", "--vary", f"bounds={','.join(BOUNDS)}"]
    words += ["-j", str(jobs), "--cache", "none"]
    words += ["--arch", ",".join(archs), "--vary", f"toolkit={','.join(map(str, homes.values()))}"]
    reported = sweep(module, *words)
    wanted: list[tuple[str, str, str, list[str]]] = []
    for release in homes:
        for arch in archs:
            wanted.append((release, arch, "as is", []))
            wanted += [(release, arch, f"cap {cap}", [f"-maxrregcount={cap}"]) for cap in caps]
            for bounds in BOUNDS:
                threads, blocks = bounds.split("x")
                own = ["-maxntid", threads, "-minnctapersm", blocks, "-override-directive-values"]
                wanted.append((release, arch, bounds, own))
    with ThreadPoolExecutor(jobs) as pool:
        direct = pool.map(lambda one: by_hand(homes[one[0]] / "bin" / "ptxas", module, one[1], one[3]), wanted)
        for (release, arch, label, _), figures in zip(wanted, direct, strict=True):
            plain = {symbol for symbol, bounded in has_bounds(module).items() if not bounded}
            for symbol, truth in figures.items():
                if label in BOUNDS and symbol not in plain:
                    continue  # an option cannot take a .minnctapersm, .reqntid or .maxnreg away, as the sweep does
                compare(reported, (symbol, arch, release, label), truth, counts)
                kernels.add(symbol)


def check_sources(tools: object, folder: Path, caps: Iterable[int], jobs: int, counts: Counter[str]) -> None:
    """CUDA sources and a command line against nvcc itself."""
    for release in ("13.0", "13.5"):
        home = tools.root(release)  # type: ignore[attr-defined]
        for stem in ("sweep", "spill", "bounds", "sass", "fp64"):
            source = ROOT / "fixtures" / "sources" / f"{stem}.cu"
            options = ["-O3", "-lineinfo", "-use_fast_math", "-Xptxas", "-dlcm=cg"]
            command = f"{home}/bin/nvcc {' '.join(options)} -gencode arch=compute_80,code=sm_90 -c {source} -o x.o"
            for input_, more, extra in (
                (str(source), ["--vary", f"toolkit={home}", "--arch", "sm_90"], ["-arch=sm_90"]),
                (command, [], [*options, "-gencode", "arch=compute_80,code=sm_90"]),
            ):
                varied = ["--vary", f"cap={','.join(map(str, caps))}"]
                reported = sweep(input_, *more, *varied, "-j", str(jobs), "--cache", "none")
                for cap in (None, *caps):
                    label = "as is" if cap is None else f"cap {cap}"
                    capped = [] if cap is None else [f"-maxrregcount={cap}"]
                    line = [
                        home / "bin" / "nvcc",
                        *extra,
                        *capped,
                        "-Xptxas",
                        "-v",
                        "-cubin",
                        "-o",
                        folder / "x",
                        source,
                    ]
                    said = subprocess.run(line, capture_output=True, text=True, check=True).stderr
                    for symbol, truth in read(said).items():
                        compare(reported, (symbol, "sm_90", release, label), truth, counts, "points of nvcc")
        print(f"nvcc {release}: {dict(counts)}", flush=True)


def sweep(module: str | Path, *words: str) -> dict[tuple[str, str, str, str], tuple[int, int, int, int] | str]:
    """What the product says, by (symbol, arch, release, point); a text where a point failed."""
    command = [sys.executable, "-m", "spillscan", "sweep", str(module), *words, "-f", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{module}: {done.stderr}")
    names = ("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes")
    found: dict[tuple[str, str, str, str], tuple[int, int, int, int] | str] = {}
    for row in csv.DictReader(io.StringIO(done.stdout)):
        release = ".".join(row["toolkit"].split(".")[:2])
        figures = tuple(int(row[name]) for name in names) if not row["failure"] else row["failure"]
        found[row["symbol"], row["arch"], release, row["point"]] = figures  # type: ignore[assignment]
    return found


def by_hand(ptxas: Path, module: Path, arch: str, options: list[str]) -> Figures:
    """One direct run; no kernels where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        command = [ptxas, "-v", f"-arch={arch}", *options, module, "-o", f"{folder}/x.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return read(done.stderr) if done.returncode == 0 else {}


def read(said: str) -> Figures:
    """The figures of each entry; lines of other functions are passed over."""
    found: Figures = {}
    symbol = ""
    spills: tuple[int, ...] = ()
    for before, line in zip(["", *said.splitlines()], said.splitlines(), strict=False):
        if match := _ENTRY.search(line):
            symbol = match[1]
        elif (match := _SPILLS.search(line)) and before.endswith(f"Function properties for {symbol}"):
            spills = tuple(map(int, match.groups()))
        elif (match := _USED.search(line)) and symbol and spills:
            found[symbol] = (int(match[1]), spills[0], spills[1], spills[2])
            symbol, spills = "", ()
    return found


def has_bounds(module: Path) -> dict[str, bool]:
    """Whether each entry has a directive that ptxas's options cannot replace."""
    text = module.read_text(errors="replace")
    pieces = re.split(r"\.entry\s+", text)[1:]
    heads = {re.split(r"\W", piece.replace("$", "_"), maxsplit=1)[0]: piece.split("{")[0] for piece in pieces}
    return {
        symbol: bool(re.search(r"\.(maxntid|reqntid|minnctapersm|maxnreg)", head)) for symbol, head in heads.items()
    }


def compare(
    reported: dict[tuple[str, str, str, str], tuple[int, int, int, int] | str],
    key: tuple[str, str, str, str],
    truth: tuple[int, int, int, int],
    counts: Counter[str],
    what: str = "points",
) -> None:
    """One kernel at one point."""
    counts[what] += 1
    if truth[2] or truth[3]:
        counts[f"{what} with spills"] += 1
    if reported.get(key) != truth:
        counts[f"wrong {what}"] += 1
        if counts[f"wrong {what}"] < 10:
            print(f"  {key}: {reported.get(key)}, by hand {truth}")


if __name__ == "__main__":
    sys.exit(main())
