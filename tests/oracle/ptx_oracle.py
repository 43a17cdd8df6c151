"""PTX of public wheels, compiled by many releases of ptxas: log, binary and dump must say the same by one name.

    python -m tests.oracle.ptx_oracle [--cache DIR] [--modules N] [--jobs N] [--seed N] [--keep FOLDER] [FILE…]

Some modules of each wheel (those that compile in reasonable time), each by some (release, architecture, limit).
For every kernel of ptxas's own log, the figures that the cubin and its dump (``cuobjdump -sass``) give are held against
those of the log: registers, shared memory, own stack and call stack, own spills and those with callees. A figure may be
unknown; one that is definite must be that of the log, and bounds must hold it. Exit status 1 where one does not.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from spillscan.model import Kernel
from spillscan.model.code import SassFunction
from spillscan.reading import dumps as sass
from spillscan.reading import logs as buildlog
from spillscan.reading.binary import records
from spillscan.reading.inputs.source import Source, Stream
from tests.oracle.binary_sources import ROOT, wheel

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
RELEASES = ("11.8", "12.0", "12.4", "12.9", "13.0", "13.5")
CAPS = (24, 32, 40, 64)
_LATEST_PTX = {"11.8": 78, "12.0": 80, "12.4": 84, "12.9": 88, "13.0": 90, "13.5": 95}
"""PTX ISA that a release reads, ten times its number."""
_OLDEST_ARCH = {"13": 75}
_ARCHS = (52, 61, 70, 75, 80, 86, 90)
_MOST_BYTES = 700_000
"""Of a module: larger ones take minutes."""
_FIRST_OF_NEW = 75
"""Architecture that the newer disassembler reads."""


def modules(path: Path) -> Iterator[bytes]:
    """The PTX of a wheel, each once; a file of PTX is itself one."""
    if path.suffix == ".ptx":
        yield path.read_bytes()
        return
    seen = set()
    for _, text in records.ptx_of(path.read_bytes(), path.name):
        digest = hashlib.sha256(text).digest()
        if digest not in seen and len(text) <= _MOST_BYTES and b".entry" in text:
            seen.add(digest)
            yield text.rstrip(b"\0")


def jobs(text: bytes, random: Random, count: int) -> Iterator[tuple[str, int, int]]:
    """Some (release, architecture, limit) that can compile a module."""
    version = re.search(rb"^\.version\s+(\d+)\.(\d+)", text, re.MULTILINE)
    target = re.search(rb"^\.target\s+sm_(\d+)", text, re.MULTILINE)
    if not version or not target:
        return
    isa, least = int(version[1]) * 10 + int(version[2]), int(target[1])
    able = [
        (release, arch, limit)
        for release in RELEASES
        for arch in _ARCHS
        for limit in CAPS
        if isa <= _LATEST_PTX[release] and arch >= least and arch >= _OLDEST_ARCH.get(release[:2], 0)
    ]
    yield from random.sample(able, min(count, len(able)))


class Oracle:
    """Compiles, compares and counts."""

    def __init__(self, cache: Path | None, folder: Path) -> None:
        from maker.toolchains import Toolchains

        self._tools = Toolchains(ROOT / "fixtures" / "cases.yaml", cache)
        self._folder = folder
        self.counts: Counter[str] = Counter()

    def job(self, text: Path, release: str, arch: int, limit: int) -> None:
        """One compilation."""
        name = f"{text.stem}-{release}-sm_{arch}-{limit}"
        cubin, dump = self._folder / f"{name}.cubin", self._folder / f"{name}.sass"
        ptxas = self._tools.root(release) / "bin" / "ptxas"
        log = self._folder / f"{name}.log"
        if not dump.exists():
            command = [ptxas, "-v", f"-arch=sm_{arch}", f"-maxrregcount={limit}", text, "-o", cubin]
            done = subprocess.run([*map(str, command)], capture_output=True, check=False)
            if done.returncode:
                self.counts["not compiled"] += 1
                return
            log.write_bytes(done.stderr)
            tool = "sass-13.5" if arch >= _FIRST_OF_NEW else "sass-12.8" if release >= "12.5" else "sass-12.3"
            command = [self._tools.root(tool) / "bin" / "cuobjdump", "-sass", cubin]
            dump.write_bytes(subprocess.run([*map(str, command)], capture_output=True, check=False).stdout)
        codes = {each.symbol: each for each in records.items(cubin.read_bytes(), name) if _is_whole(each)}
        texts = {}
        if b"Function :" in dump.read_bytes():
            with Source(str(dump)).open() as stream:
                texts = {each.symbol: each for each in sass.reader(stream.chunks(), name) if _is_whole(each)}
        self.counts["compilations"] += 1
        for kernel in buildlog.read(Stream(io.BytesIO(log.read_bytes()), name), name).kernels:
            if kernel.role == "entry":
                self.compare(name, kernel, codes[kernel.key.symbol], texts.get(kernel.key.symbol))

    def compare(self, where: str, reported: Kernel, code: SassFunction, text: SassFunction | None) -> None:
        """One kernel."""
        usage, said, local = code.usage, reported.usage, code.stats.local
        assert usage is not None
        cumulative = said.cumulative_spills or said.spills
        figures = {
            "registers": (usage.registers, said.registers),
            "shared": (usage.shared_bytes, said.shared_bytes or 0),
            "stack": (usage.stack_bytes, said.stack_bytes),
            "call stack": (usage.cumulative_stack_bytes, said.cumulative_stack_bytes),
            "spills": (code.stats.spills("entry"), said.spills),
            "call spills": (local.tree.pair if local.tree else None, said.cumulative_spills),
        }
        if text is not None:
            figures["spills of the dump"] = text.stats.spills("entry"), said.spills
            figures["call spills of the dump"] = (
                text.stats.local.tree.pair if text.stats.local.tree else None,
                said.cumulative_spills,
            )
        self.counts["kernels"] += 1
        self.counts["kernels that spill"] += said.spills != (0, 0)
        for name, (ours, theirs) in figures.items():
            if theirs is None:
                continue
            kind = "unknown" if ours is None else "wrong" if ours != theirs else "right"
            self.counts[f"{name} {kind}"] += 1
            if kind == "wrong" and self.counts[f"{name} wrong"] <= 12:
                print(
                    f"  {where} {reported.key.symbol[:60]}: {name} {ours}, ptxas {theirs} ({local.evidence})",
                    flush=True,
                )
        for which, each in (("binary", code), ("dump", text)):
            if each is None:
                continue
            for own, truth in ((True, said.spills), (False, cumulative)):
                least, most = each.stats.local.bounds("entry", own=own)
                assert truth is not None
                held = all(low <= it <= high for low, it, high in zip(least.pair, truth, most.pair, strict=True))
                what = f"bounds of the {which}, {'own' if own else 'with callees'}"
                self.counts[f"{what}: {'hold' if held else 'wrong'}"] += 1
                if not held and self.counts[f"{what}: wrong"] <= 12:
                    print(f"  {where} {reported.key.symbol[:60]}: {what} {least.pair} to {most.pair}, ptxas {truth}")


def _is_whole(item: object) -> bool:
    return isinstance(item, SassFunction) and not item.caller


def main() -> int:
    """Compile and compare; 1 where a figure is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--modules", type=int, default=8, help="of each wheel")
    parser.add_argument("--jobs", type=int, default=4, help="of each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    paths = arguments.files or [wheel(name, arguments.cache, python=python) for name, python in WHEELS]
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        oracle, random = Oracle(arguments.cache, folder), Random(arguments.seed)
        for path in paths:
            found = list(modules(path))
            print(f"{path.name}: {len(found)} modules", flush=True)
            for number, text in enumerate(random.sample(found, min(arguments.modules, len(found)))):
                source = folder / f"{path.stem.split('-')[0]}-{number}.ptx"
                source.write_bytes(text)
                for job in jobs(text, random, arguments.jobs):
                    oracle.job(source, *job)
    print("\n".join(f"{name}: {count:,}" for name, count in sorted(oracle.counts.items())))
    return 1 if any("wrong" in name for name in oracle.counts) else 0


if __name__ == "__main__":
    sys.exit(main())
