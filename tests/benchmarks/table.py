"""What people wait for, as ratios to what they would run instead or to the cost of the work itself: `make bench`.

    python -m tests.benchmarks.table [--keep] [--rounds N] [ROW …]

Each candidate is a whole process, start-up included; candidates of a row take turns, and the least of their rounds
counts, since whatever else runs can only slow them down. Processor time (user and system, children included) is
compared, but behind a pipe from cuobjdump: the clock. ``--keep`` puts the ratios into docs/internals/performance.md.
The libraries and NVIDIA's disassembler come from PyPI, kept where the oracles keep theirs.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from spillscan import __version__
from spillscan.history.dataset import Unit
from spillscan.history.dataset.repair import verify
from spillscan.model import Kernel
from spillscan.reading import workers
from spillscan.reading.logs.constant_banks import prints_constant_banks
from tests.benchmarks import dataset_bench, logs, sass_bench
from tests.benchmarks.binary_bench import Run, apart, contents, extract, timed
from tests.conftest import read_log
from tests.counting import MOST_GROWTH, forget_lines, steps
from tests.history.audit import crashes
from tests.history.audit.support import kept as audited
from tests.history.audit.support import run
from tests.history.dataset import test_repair
from tests.oracle.binary_oracle import tool_folder
from tests.oracle.binary_sources import ROOT, libraries, wheel
from tests.reading.logs import test_growth as log_growth
from tests.reports.browser.pages import many

PAGE = ROOT / "docs" / "internals" / "performance.md"
PYTHON = sys.executable
SCAN = (PYTHON, "-m", "spillscan", "scan")
SCRIPT = (PYTHON, str(ROOT / "tests" / "benchmarks" / "regex_script.py"))
LIBRARY = ("xgboost==3.2.0", "*libxgboost.so")
LARGE_LIBRARY = ("libcuvs-cu12==26.10.0", "*libcuvs.so")
OTHER_LIBRARY = ("faiss-gpu-cu12==1.14.1.post1", "*libfaiss*.so")
DEMO = ROOT / "fixtures" / "demo" / "head.log"
LOG_BYTES, LARGE_LOG_BYTES = 40_000_000, 100_000_000
INSTRUCTIONS = 1_000_000
"""That cuobjdump -sass disassembles: as many as where the bars come from (docs/internals/binaries.md)."""

# The cost of the work itself: all images of a library decompressed, as the package does that is named like the format,
# and each byte of them hashed once.
ONE_PASS = """
import mmap, sys
import lz4.block
from xxhash import xxh3_64_hexdigest
from spillscan.reading.binary.containers import images
from spillscan.reading.binary.found import Image
from spillscan.reading.binary.window import DEFAULT, Budget, Window
file = open(sys.argv[1], "rb")
data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
for each in images(Window(data), Budget(DEFAULT, len(data))):
    if isinstance(each, Image):
        stored = each.raw.view(0, each.raw.size, "image")
        plain = stored if isinstance(each.stored, Window) else lz4.block.decompress(stored, each.plain_bytes)
        xxh3_64_hexdigest(plain)
"""
INFLATE = "import sys, zipfile\nfor info in (wheel := zipfile.ZipFile(sys.argv[1])).infolist(): wheel.read(info)"
OURS = """
import mmap, sys
from spillscan.reading.binary import archive
from spillscan.reading.binary.window import DEFAULT, Budget, Window
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
    for _ in archive.members(Window(data), Budget(DEFAULT, len(data))): pass
"""


class Figure(NamedTuple):
    """One line of the table."""

    work: str
    against: str
    """What it is set against."""
    ratio: float
    bar: float
    least: bool = False
    """Whether the bar is the least, not the most."""

    @property
    def met(self) -> bool:
        """Whether the bar is met."""
        return self.ratio >= self.bar if self.least else self.ratio <= self.bar


class Bench:
    """A folder with what is measured, made once."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self.folder = folder
        self.rounds = rounds
        self._largest: dict[Path, tuple[list[Path], int]] = {}

    @cached_property
    def tools(self) -> Path:
        """NVIDIA's disassemblers."""
        return tool_folder("sass-13.5", None)

    def least(self, **commands: Sequence[str | Path]) -> dict[str, Run]:
        """The least of all rounds of each command; names that end in ``two`` have two processors."""
        runs: dict[str, list[Run]] = {name: [] for name in commands}
        for _ in range(self.rounds):
            for name, words in commands.items():
                for made in self.folder.glob("*.json"):
                    made.unlink()  # a large file that is put in the place of another frees that one, too
                run = timed(words, processors=2 if name.endswith("two") else 1)
                if not run.done:
                    raise SystemExit(f"{' '.join(map(str, words))} fails")
                runs[name].append(run)
        return {name: _least(of) for name, of in runs.items()}

    @property
    def log(self) -> Path:
        """A build log of 102,000 kernels."""
        return self._written("build.log", LOG_BYTES)

    @property
    def large_log(self) -> Path:
        """One of 255,600."""
        return self._written("large.log", LARGE_LOG_BYTES)

    def _written(self, name: str, size: int) -> Path:
        path = self.folder / name
        if not path.exists():
            logs.LOG_BYTES = size
            logs.large_log(path)
        return path

    @cached_property
    def wheel(self) -> Path:
        """A wheel with a library."""
        return wheel(LIBRARY[0], None)

    @cached_property
    def library(self) -> Path:
        """That library, of 237 MB."""
        return self._unpacked("library", self.wheel, LIBRARY[1])

    @cached_property
    def large_library(self) -> Path:
        """One of 570 MB."""
        return self._unpacked("large", wheel(LARGE_LIBRARY[0], None), LARGE_LIBRARY[1])

    @cached_property
    def other_library(self) -> Path:
        """One of 68 MB, with few functions, and long ones."""
        return self._unpacked("other", wheel(OTHER_LIBRARY[0], None), OTHER_LIBRARY[1])

    def _unpacked(self, name: str, archive: Path, pattern: str) -> Path:
        (self.folder / name).mkdir(exist_ok=True)
        return next(iter(libraries(archive, pattern, self.folder / name)))

    def largest(self, path: Path) -> tuple[list[Path], int]:
        """The largest cubins of a library, and their instructions; made once."""
        if path not in self._largest:
            _, members = apart(contents, path).members(INSTRUCTIONS)
            files = [self.folder / f"{path.stem}.{member}.cubin" for member in members]
            for member, file in zip(members, files, strict=True):
                apart(extract, path, member, file)
            self._largest[path] = files, sum(members.values())
        return self._largest[path]


def _least(runs: Sequence[Run]) -> Run:
    seconds, cpu = (min(column) for column in zip(*(run[:2] for run in runs), strict=True))
    return Run(seconds, cpu, max(run.peak for run in runs), True, b"")


def build_log(bench: Bench) -> Iterator[Figure]:
    """A build log as JSON."""
    out, log = bench.folder / "out.json", bench.large_log
    ours = (*SCAN, log, "-f", f"json:{out}")
    commands: dict[str, Sequence[str | Path]] = {"one": ours, "script": (*SCRIPT, log, out)}
    if find_spec("cuxray"):
        parse = f"import cuxray.parse.ptxasv as p; print(len(p.parse(open({str(log)!r}).read())))"
        commands["cuxray"] = (PYTHON, "-c", parse)
    runs = bench.least(**commands)
    yield Figure("build log, JSON", "the regex script", runs["one"].cpu / runs["script"].cpu, 1.0)
    if "cuxray" in runs:
        yield Figure("build log, JSON", "cuxray's parser", runs["one"].cpu / runs["cuxray"].cpu, 0.75)


def library(bench: Bench) -> Iterator[Figure]:
    """A library of 75,000 kernels."""
    path = bench.large_library
    as_json = (*SCAN, path, "-f", f"json:{bench.folder / 'library.json'}")
    runs = bench.least(text=(*SCAN, path, "--top", "10"), json=as_json, work=(PYTHON, "-c", ONE_PASS, path))
    for name, what, bar in (("text", "table", 4), ("json", "JSON", 5)):
        yield Figure(f"library, {what}", "inflating and one pass", runs[name].cpu / runs["work"].cpu, bar)


def cuobjdump(bench: Bench) -> Iterator[Figure]:
    """Instructions a second, of two libraries and their largest cubins."""
    each = f"for cubin; do '{bench.tools / 'cuobjdump'}' -sass \"$cubin\" | grep -cE 'STL|LDL'; done"
    for what, path, bar in (("a library", bench.library, 450), ("a smaller library", bench.other_library, 400)):
        cubins, instructions = bench.largest(path)
        runs = bench.least(text=(*SCAN, path, "--top", "10"), theirs=("sh", "-c", each, "sh", *cubins))
        rate = apart(contents, path).instructions / runs["text"].cpu / (instructions / runs["theirs"].cpu)
        yield Figure(f"{what}, instructions a second", "cuobjdump -sass, grep", rate, bar, least=True)


def wheels(bench: Bench) -> Iterator[Figure]:
    """A wheel: inflating it, and memory."""
    path = bench.wheel
    runs = bench.least(
        ours=(PYTHON, "-c", OURS, path), zlib=(PYTHON, "-c", INFLATE, path), scan=(*SCAN, path, "--top", "10")
    )
    yield Figure("wheel, inflating", "zipfile's zlib", runs["ours"].cpu / runs["zlib"].cpu, 0.6)
    allowed = 1.2 * bench.library.stat().st_size + 150e6
    yield Figure("wheel, most memory", "1.2 × its largest member + 150 MB", runs["scan"].peak / allowed, 1.0)


def start(bench: Bench) -> Iterator[Figure]:
    """Where nearly nothing is to be done."""
    runs = bench.least(
        argparse=(PYTHON, "-c", "import argparse"),
        version=(PYTHON, "-m", "spillscan", "--version"),
        small=(*SCAN, DEMO),
    )
    yield Figure("--version", "python -c 'import argparse'", runs["version"].cpu / runs["argparse"].cpu, 3)
    yield Figure("scan of a small log", "python -c 'import argparse'", runs["small"].cpu / runs["argparse"].cpu, 6)


def gates(bench: Bench) -> Iterator[Figure]:
    """check and diff."""
    base, head = bench.folder / "base.log", bench.log
    text = head.read_bytes()
    part = bench.folder / "part.log"
    kernel = b"ptxas info    : Compiling entry function"
    part.write_bytes(text[: [match.start() for match in re.finditer(kernel, text)][13_354]])
    base.write_bytes(re.sub(rb"Used 40 registers", b"Used 38 registers", text))
    out = bench.folder / "script.json"
    runs = bench.least(
        check=("sh", "-c", f"{PYTHON} -m spillscan check {part} || test $? = 1"),  # some of them spill
        script=(*SCRIPT, part, out),
        diff=(PYTHON, "-m", "spillscan", "diff", base, head),  # it judges nothing unless it is asked to
        both=("sh", "-c", f"{' '.join(SCRIPT)} {base} {out} && {' '.join(SCRIPT)} {head} {out}"),
    )
    yield Figure("check of 13,354 kernels", "the regex script", runs["check"].cpu / runs["script"].cpu, CHECK_BAR)
    yield Figure("diff of two builds of 102,000", "the script on both", runs["diff"].cpu / runs["both"].cpu, DIFF_BAR)


CHECK_BAR, DIFF_BAR = 1.3, 0.7
"""0.45 and 0.41 of 2.9 and 1.7, the ratios of version 0.1.0 when the bars were set."""


def dumps(bench: Bench) -> Iterator[Figure]:
    """A dump of machine code. Speed is that of the reader in a large dump, from processes that have imported it, on one
    processor; behind cuobjdump, whole processes take turns on two."""
    path, cubins = bench.folder / "library.sass", bench.largest(bench.library)[0]
    text = b"".join(timed([bench.tools / "cuobjdump", "-sass", each], tools=bench.tools).printed for each in cubins)
    with path.open("wb") as out:
        for _ in range(-(-DUMP_BYTES // len(text))):
            out.write(text)
    wanted = ("spillscan", "mawk", "cat | spillscan", "cat | mawk")
    works = {name: work for name, work in sass_bench.candidates(path).items() if name in wanted}
    rounds = [{name: sass_bench.process(work, 1).cpu for name, work in works.items()} for _ in range(3 * bench.rounds)]
    path.unlink()
    if "mawk" in works:
        for what, way in (("", ""), (" through a pipe", "cat | ")):
            least = {name: min(each[way + name] for each in rounds) for name in ("mawk", "spillscan")}
            yield Figure(f"SASS dump{what}, speed", "mawk", least["mawk"] / least["spillscan"], MAWK_BAR, least=True)
    dump = f"'{bench.tools / 'cuobjdump'}' -sass '{cubins[0]}' |"
    runs = bench.least(
        scan_two=("sh", "-c", f"{dump} {' '.join(SCAN)} -"),
        grep_two=("sh", "-c", f"{dump} grep -cE '{sass_bench.PATTERN}'"),
    )
    yield Figure("SASS dump from cuobjdump", "grep", runs["scan_two"].seconds / runs["grep_two"].seconds, 1.02)


MAWK_BAR = 0.33
"""A third of the speed of a program that looks for two words."""
DUMP_BYTES = 1_000_000_000
"""A smaller dump says more of imports, tables and pages that are touched first than of bytes."""


def history(bench: Bench) -> Iterator[Figure]:
    """One kernel through 1,000 builds of 1,000, which was renamed ten times, after a compaction; in this machine's
    seconds."""
    root = bench.folder / "data"
    for at, build in enumerate(dataset_bench.builds(1_000_000, 1_000)):
        dataset_bench.put(str(root), Unit(uri="build.log", content_hash=f"{at:x}"), build)
    symbol = build.kernels[0].key.symbol
    timed((PYTHON, "-m", "spillscan", "history", "dataset", "compact", "-d", root), processors=2)
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    trend = (PYTHON, "-m", "spillscan", "history", "trend", symbol, "-d", root)
    runs = bench.least(all=trend, last=(*trend, "--last", "10"))
    yield Figure("one kernel of 1,000 × 1,000", "1.5 s", runs["all"].cpu / 1.5, 1.0)
    yield Figure("one kernel, --last 10", "0.5 s", runs["last"].cpu / 0.5, 1.0)
    yield Figure("one kernel, most memory", "200 MB", runs["all"].peak / 200e6, 1.0)
    yield Figure("a build of 1,000, compacted", "5 KB", size / 1000 / 5000, 1.0)


def questions(bench: Bench) -> Iterator[Figure]:
    """What is asked of ten builds of 50,000 kernels, as DuckDB alone answers it from the same files."""
    root = bench.folder / "ten"
    for at, build in enumerate(dataset_bench.builds(500_000, 50_000)):
        dataset_bench.put(str(root), Unit(uri="build.log", content_hash=f"{at:x}"), build)
    symbol = build.kernels[0].key.symbol
    asked: dict[str, tuple[object, ...]] = {
        "count": ("query", "SELECT count(*) FROM kernels", "-d", root),
        "top": ("top", root),
        "bisect": ("bisect", symbol, "-d", root),
        "history": (root,),
    }
    for name, words in asked.items():
        plain = (PYTHON, "-m", "tests.benchmarks.plain_questions", root, name, symbol, "b0009")
        runs = bench.least(ours=(PYTHON, "-m", "spillscan", "history", *words), plain=plain)
        yield Figure(f"{name} of 10 × 50,000", "DuckDB alone", runs["ours"].cpu / runs["plain"].cpu, 3)
    yield Figure("history, most memory", "512 MB", runs["ours"].peak / 512e6, 1)


def growth(_: Bench) -> Iterator[Figure]:
    """Steps of Python (tests/counting.py) for the family of logs that grows worst, of four times the records."""
    log_growth.ready()

    def work(text: str) -> int:
        forget_lines()
        return steps(lambda: read_log(text))

    grown = max(work(made(4 * RECORDS)) / work(made(RECORDS)) for made in log_growth.LOGS.values())
    yield Figure("four times a log, worst family", "4 × the steps", grown / 4, MOST_GROWTH)


RECORDS = 600
"""More than are kept at once of anything: until then, what is sought among them grows."""


def damage(bench: Bench) -> Iterator[Figure]:
    """Files of a dataset truncated, lost or with one flipped bit, one at a time: verify names each that matters, and
    the other build answers as before."""
    sound, work = bench.folder / "sound", bench.folder / "harmed"
    test_repair.make(sound)
    before, found = test_repair.held(sound), []
    for name, bad in test_repair.harmed(random.Random(5), sound):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(sound, work)
        (work / name).unlink() if bad is None else (work / name).write_bytes(bad)
        owner, after = name.split("label=")[1].split("/")[0], test_repair.held(work)
        named = [each.path for each in verify(str(work))] == [name]
        found.append(all(after[each] == before[each] for each in before if not named or each != owner))
    yield Figure(f"{len(found)} harmed files, named and others read", "all", sum(found) / len(found), 1.0, least=True)


def kills(bench: Bench) -> Iterator[Figure]:
    """An audit of 500 objects, killed ten times and ended: it must hold what an undisturbed one does."""
    tree, data, whole = crashes.objects(bench.folder / "objects", 500), bench.folder / "killed", bench.folder / "whole"
    begin = time.monotonic()
    run(tree, whole, processes=2)
    took, dice, repeated = time.monotonic() - begin, random.Random(1), list[float]()
    while len(repeated) < 10:
        late = crashes.killed(tree, data, dice.random() * took / 3)
        if late is not None:
            repeated.append(late)
        else:
            shutil.rmtree(data)
    run(tree, data)
    if audited(data) != audited(whole):
        raise SystemExit("an audit that was killed has another dataset")
    yield Figure("audit killed, work repeated at most", "5 s", max(repeated) / crashes.REPEATED_SECONDS, 1.0)


def page(bench: Bench) -> Iterator[Figure]:
    """A page of 255,600 kernels; in this machine's seconds."""
    log, made = bench.folder / "many.log", bench.folder / "many.html"
    log.write_text("".join(map(_printed, many(255_600).kernels)))
    spent = bench.least(page=(*SCAN, log, "-f", f"html:{made}"))["page"]
    yield Figure("page of 255,600 kernels", "5 s", spent.cpu / 5, 1.0)
    yield Figure("page of 255,600 kernels, size", "8 MB", made.stat().st_size / 8e6, 1.0)


def _printed(kernel: Kernel) -> str:
    usage, symbol = kernel.usage, kernel.key.symbol
    banks = ", 376 bytes cmem[0]" if prints_constant_banks(kernel.key.arch) else ""
    return (
        f"ptxas info    : Compiling entry function '{symbol}' for '{kernel.key.arch}'\n"
        f"ptxas info    : Function properties for {symbol}\n"
        f"    {usage.stack_bytes} bytes stack frame, {usage.spill_store_bytes} bytes spill stores, "
        f"{usage.spill_load_bytes} bytes spill loads\n"
        f"ptxas info    : Used {usage.registers} registers{banks}\n"
    )


ROWS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    each.__name__: each
    for each in (
        build_log,
        library,
        cuobjdump,
        wheels,
        start,
        gates,
        dumps,
        history,
        questions,
        growth,
        damage,
        kills,
        page,
    )
}
HEAD = "| work | against | bar |"


def kept(page: str, figures: Sequence[Figure], version: str = __version__) -> str:
    """The page with a column of ``version``, in which what is measured again replaces what stood there. Rows of one
    work and rival stay one row."""
    lines = page.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(HEAD))
    end = next((n for n in range(at, len(lines)) if not lines[n].startswith("|")), len(lines))
    if not lines[at].endswith(f" {version} |"):
        ends = [f" {version} |", "--:|", *[" – |"] * (end - at - 2)]
        lines[at:end] = [line + cell for line, cell in zip(lines[at:end], ends, strict=True)]
    columns = lines[at].count("|") - 4
    held = {tuple(cell.strip() for cell in line.split("|")[1:3]): line for line in lines[at + 2 : end]}
    rows = []
    for each in figures:
        bar = f"{'≥' if each.least else '≤'} {each.bar:g}"
        line = held.pop((each.work, each.against), f"| {each.work} | {each.against} | {bar} |" + " – |" * columns)
        rows.append(f"{line[:-1].rpartition('|')[0]}| {_shown(each)} |")
    return "\n".join([*lines[: at + 2], *rows, *held.values(), *lines[end:]]) + "\n"


def _shown(figure: Figure) -> str:
    return f"{figure.ratio:.0f}" if figure.ratio >= 100 else f"{figure.ratio:.2f}"


def main() -> int:
    """Measure, and print a line for each as it comes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="put the ratios into docs/internals/performance.md")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as an installation's are
    print(f"spillscan {__version__}, {workers.processors()} processors")
    figures = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        bench = Bench(Path(folder), arguments.rounds)
        for name in arguments.rows or ROWS:
            for each in ROWS[name](bench):
                figures.append(each)
                sign = "≥" if each.least else "≤"
                verdict = "met" if each.met else "missed"
                print(f"  {each.work:42s} {_shown(each):>6} × {each.against:32s} {sign} {each.bar:<5g} {verdict}")
                sys.stdout.flush()
    if arguments.keep:
        PAGE.write_text(kept(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
