"""Compare what cubins and their disassembly give with ptxas's own log of the same compilation. Not part of `make test`.

    python -m tests.oracle.ptxas_oracle [--sources N] [--units N] [--builds N] [--seed N] [--keep FOLDER]
                                        [--public | FILE ...]

Modules of PTX: random sources that spill in many ways (``spill_sources.py``), generated units
(``fixtures/maker/generate.py``), or FILES; with ``--public``, some modules of each wheel of :data:`WHEELS`. Each is
compiled by several releases of ptxas for several architectures and register limits, whole and relocatable. Compared are

* registers, shared memory, stacks and spills of each kernel, device function and callee of the log with the cubin's,
  and the spills with those that the text of ``cuobjdump -sass`` alone gives: own, with callees, and bounds;
* each access's class with the annotation that ptxas 12.6.20 and later write and nvdisasm 13.4 and later print;
* log and disassembly joined: every kernel gets its code, and no contradiction is seen.

A value may be unknown, but no annotated one; a definite value must be that of the log. Exits with 1 if one is not, if
an access is called a spill that is none (or, in a kernel without unknown accesses, the reverse), or if a join fails.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from spillscan import scan
from spillscan.model import Kernel
from spillscan.model.code import SassFunction
from spillscan.reading import disassembly as sass
from spillscan.reading import logs as buildlog
from spillscan.reading.binary import records
from spillscan.reading.inputs.source import Source, Stream
from tests.oracle import toolchain
from tests.oracle.binary_sources import wheel
from tests.oracle.spill_sources import source

_OLD = "sm_52 sm_61 sm_70 sm_75 sm_80 sm_86 sm_89"
RELEASES = {
    "11.8": (78, f"{_OLD} sm_90"),
    "12.0": (80, f"{_OLD} sm_90"),
    "12.4": (84, f"{_OLD} sm_90a"),
    "12.6": (85, f"{_OLD} sm_90a"),
    "12.8": (87, f"{_OLD} sm_90 sm_100"),
    "12.9": (88, f"{_OLD} sm_90a sm_100a sm_103 sm_120 sm_121"),
    "13.0": (90, "sm_75 sm_80 sm_86 sm_89 sm_90a sm_100a sm_110 sm_120 sm_121"),
    "13.2": (92, "sm_86 sm_89 sm_90 sm_100a"),
    "13.5": (95, "sm_75 sm_80 sm_86 sm_89 sm_90a sm_100a sm_103a sm_110 sm_120a sm_121"),
}
"""Newest PTX ISA, ten times its number, and architectures of each release of ptxas."""
ANNOTATING = ("12.6", "12.8", "12.9", "13.0", "13.2", "13.5")
LIMITS = (24, 32, 32, 40, 48, 64)
EXPECTED = frozenset({"not-in-log", "unattached-advisory"})
"""Issues of a join that are right here: helpers of ptxas's own, which no log names; messages that name no kernel."""
WHEELS = (
    ("auto-gptq==0.7.1", "3.11"),
    ("autoawq-kernels==0.0.9", "3.11"),
    ("bitsandbytes==0.41.1", "3.11"),
    ("implicit==0.7.2", "3.11"),
    ("thundergbm==0.3.17", "3.8"),
    ("tsnecuda==3.0.1", "3.8"),
    ("cumm-cu120==0.4.11", "3.11"),
    ("spconv-cu102==2.3.6", "3.8"),
    ("dgl-cu101==0.6.1", "3.8"),
    ("xformers==0.0.20", "3.11"),
    ("torchvision==0.5.0", "3.7"),
    ("catboost==0.24", "3.8"),
)
MODULES = 8
"""Compiled of each wheel."""
_MOST_BYTES = 700_000
"""Of a module: larger ones take minutes."""
_SHOWN = 12
"""Differences of a kind that are printed."""


class Job(NamedTuple):
    """A compilation."""

    release: str
    arch: str
    limit: int
    relocatable: bool = False

    @property
    def number(self) -> int:
        """90 of ``sm_90a``."""
        return int(re.sub(r"\D", "", self.arch))

    def disassemblers(self) -> list[str]:
        """The toolchains whose cuobjdump reads its cubin, the newest first."""
        old = self.release < "13"
        reads = {
            "sass-13.5": self.number >= 75 and self.release != "12.0",  # no code of 12.0 to it
            "sass-12.8": old and self.number <= 120 and self.number != 103,
            "sass-12.3": old and self.number <= 90,
        }
        return [name for name, able in reads.items() if able]


def jobs(text: bytes, random: Random, count: int, *, relocatable: bool) -> list[Job]:
    """Some compilations of a module, by what can compile it."""
    version = re.search(rb"^\.version\s+(\d+)\.(\d+)", text, re.MULTILINE)
    target = re.search(rb"^\.target\s+sm_(\d+)", text, re.MULTILINE)
    assert version is not None
    assert target is not None
    able = [
        Job(release, arch, limit)
        for release, (isa, archs) in RELEASES.items()
        for arch in archs.split()
        for limit in LIMITS
        if int(version[1] + version[2]) <= isa and Job(release, arch, limit).number >= int(target[1])
    ]
    some = random.sample(able, min(count, len(able)))
    return [job._replace(relocatable=relocatable and random.random() < 0.3) for job in some]


def modules(path: Path) -> list[bytes]:
    """The PTX of a wheel, each once; a file of PTX is itself one."""
    if path.suffix == ".ptx":
        return [path.read_bytes()]
    found = {}
    for _, text in records.ptx_of(path.read_bytes(), path.name):
        if len(text) <= _MOST_BYTES and b".entry" in text and b".target" in text:
            found[hashlib.sha256(text).digest()] = text.rstrip(b"\0")
    return list(found.values())


def functions(path: Path) -> list[SassFunction]:
    """The functions of a disassembly."""
    with Source(str(path)).open() as stream:
        return [item for item in sass.reader(stream.chunks(), str(path)) if isinstance(item, SassFunction)]


class Oracle:
    """Compiles, compares and counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: Counter[str] = Counter()

    def job(self, ptx: Path, job: Job) -> None:
        """Compile to a cubin, and disassemble it by every tool."""
        stem = self.folder / "-".join((ptx.stem, *map(str, job)))
        cubin, log = stem.with_name(f"{stem.name}.cubin"), stem.with_name(f"{stem.name}.log")
        flags = ("-v", *(["-c"] if job.relocatable else []), f"-maxrregcount={job.limit}", f"-arch={job.arch}")
        try:
            ptxas = toolchain.tool(job.release, "ptxas")
            log.write_text(toolchain.said(ptxas, *flags, ptx, "-o", cubin, errors=True))
        except RuntimeError:  # some public module
            self.counts["not compiled"] += 1
            return
        reported = buildlog.read(Stream(io.BytesIO(log.read_bytes()), stem.name), stem.name).kernels
        self.counts["compilations"] += 1
        self.compare(stem.name, reported, [*records.items(cubin.read_bytes(), stem.name)])
        texts = {}
        for disassembler in job.disassemblers():
            dump = stem.with_name(f"{stem.name}.{disassembler}.sass")
            dump.write_text(toolchain.said(toolchain.tool(disassembler, "cuobjdump"), "-sass", cubin))
            texts[disassembler] = functions(dump)
            self.compare(dump.name, reported, texts[disassembler])
            self.join(log, dump)
        if job.release in ANNOTATING and "sass-13.5" in texts:
            annotated = stem.with_name(f"{stem.name}.nvdisasm")
            annotated.write_text(toolchain.said(toolchain.tool("sass-13.5", "nvdisasm"), "-c", cubin))
            self.classes(stem.name, functions(annotated), texts["sass-13.5"])

    def compare(self, where: str, reported: list[Kernel], items: list[object]) -> None:
        """Each record of the log with the function of a cubin, or of a text, which names no callees of kernels."""
        found = {(item.caller, item.symbol): item for item in items if isinstance(item, SassFunction)}
        form = "text" if where.endswith(".sass") else "cubin"
        caller = ""
        for kernel in reported:
            entry = kernel.role == "entry"
            caller = kernel.key.symbol if entry else caller
            alone = not entry and (kernel.final is False or not caller)
            function = found.get(("" if entry or alone else caller, kernel.key.symbol))
            kind = "kernel" if entry else "device function" if alone else "callee"
            if function is not None:
                self.figures(f"{where} {caller} {kernel.key.symbol}"[:200], f"{form}, {kind}", kernel, function)
            elif form == "cubin":
                self.count("cubin, missing", False, f"{where} {kernel.key.symbol}")

    def figures(self, where: str, kind: str, kernel: Kernel, function: SassFunction) -> None:
        """Compare one record."""
        said, usage, local = kernel.usage, function.usage, function.stats.local
        own, entry = function.stats.spills(kernel.role), kernel.role == "entry"
        together = own if not local.callees else local.tree and local.tree.pair
        pairs = {"spills": (own, said.spills)}
        if said.cumulative_spills is not None:
            pairs["call spills"] = together, said.cumulative_spills
        if usage is not None:
            pairs["spills of the usage"] = usage.spills, said.spills
        if usage is not None and entry:
            pairs["registers"] = usage.registers, said.registers
            pairs["shared"] = usage.shared_bytes, said.shared_bytes or 0
            pairs["stack"] = usage.stack_bytes, said.stack_bytes
            pairs["call stack"] = usage.cumulative_stack_bytes, said.cumulative_stack_bytes
        proven = usage is not None and local.evidence in ("annotation", "none")
        self.counts[f"{kind}s, spilling" if any(said.spills or ()) else f"{kind}s"] += 1
        for name, (ours, theirs) in pairs.items():
            if theirs is None:
                continue
            if ours is None:
                self.counts[f"{kind}: {name} unknown"] += 1
            right = ours == theirs or (ours is None and not (proven and "spills" in name and "usage" not in name))
            self.count(f"{kind}: {name}", right, f"{where}: {ours}, ptxas {theirs} ({local.evidence})")
        for part, truth in (("own", said.spills), ("all", said.cumulative_spills or said.spills)) if entry else ():
            assert truth is not None
            least, most = (local.own if part == "own" else local).bounds("entry")
            holds = all(low <= it <= high for low, it, high in zip(least.pair, truth, most.pair, strict=True))
            self.count(f"{kind}: bounds of {part} spills", holds, f"{where}: {least} to {most}, ptxas {truth}")

    def join(self, log: Path, dump: Path) -> None:
        """Log and disassembly as one build."""
        build = scan([log, dump])
        for issue in build.issues:
            self.count(f"join: {issue.code}", issue.code in EXPECTED, f"{dump.name}: {issue.message}")
        for kernel in build.kernels:
            if kernel.role == "entry":
                self.count("join: code", kernel.sass is not None, f"{dump.name}: {kernel.key.symbol}")

    def classes(self, where: str, marked: list[SassFunction], found: list[SassFunction]) -> None:
        """Access by access."""
        truth = {
            (function.symbol, access.address): access.kind == "spill"
            for function in marked
            if function.stats.local.evidence == "annotation"
            for access in function.stats.local.accesses
        }
        named = {symbol for symbol, _ in truth}
        for function in (function for function in found if function.symbol in named):
            local = function.stats.local
            for access in local.accesses:
                real = truth[function.symbol, access.address]
                kind = "callee" if access.part else "kernel" if function.role == "entry" else "device function"
                self.counts[f"class, {kind}: {'spill' if real else 'other'} said {access.kind}"] += 1
                if kind == "kernel" and access.kind != "unknown":
                    doubt = access.kind != "spill" and local.of("unknown").accesses
                    right = real == (access.kind == "spill") or bool(doubt)
                    self.count("class of a kernel's access", right, f"{where}: {function.symbol} {access}")

    def count(self, kind: str, right: bool, where: str) -> None:
        """Count one comparison."""
        self.counts[f"{kind}: {'right' if right else 'WRONG'}"] += 1
        if not right and self.counts[f"{kind}: WRONG"] <= _SHOWN:
            print(f"{kind}: {where}", flush=True)


def written(arguments: argparse.Namespace, folder: Path, random: Random) -> Iterator[Path]:
    """The modules as files."""
    from maker.generate import parallel_unit

    paths = [wheel(name, python=python) for name, python in WHEELS] if arguments.public else arguments.files
    for path in paths:
        found = modules(path)
        for number, text in enumerate(random.sample(found, min(MODULES, len(found)))):
            file = folder / f"{path.stem.split('-')[0]}_{number}.ptx"
            file.write_bytes(text)
            yield file
    if not paths:
        for seed in range(arguments.seed, arguments.seed + arguments.sources):
            yield toolchain.ptx(source(seed), folder / f"random_{seed}.ptx")
        for number in range(arguments.units):
            yield toolchain.ptx(parallel_unit(number), folder / f"unit_{number}.ptx")


def main() -> int:
    """Compile and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--public", action="store_true", help="take wheels from PyPI")
    parser.add_argument("--sources", type=int, default=25, help="random sources, with seeds from SEED on")
    parser.add_argument("--units", type=int, default=2)
    parser.add_argument("--builds", type=int, default=12, help="of each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where logs and disassembly stay")
    arguments = parser.parse_args()
    random = Random(arguments.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.keep or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        oracle = Oracle(folder)
        for file in written(arguments, folder, random):
            relocatable = file.name.startswith("random")
            for job in jobs(file.read_bytes(), random, arguments.builds, relocatable=relocatable):
                oracle.job(file, job)
            print(f"{file.name}: {oracle.counts['compilations']} compilations", flush=True)
    print("\n".join(f"{name}: {count:,}" for name, count in sorted(oracle.counts.items())))
    return int(any("WRONG" in name for name in oracle.counts))


if __name__ == "__main__":
    sys.exit(main())
