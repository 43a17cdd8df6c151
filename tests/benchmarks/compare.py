"""CPU time and peak memory of each command, as ratios to an earlier revision of the tool: ``make bench``.

    python -m tests.benchmarks.compare [--rounds N] [ROW ...]

Both revisions are built from git as wheels and installed in environments of their own below ``.venv/bench``. Each run
is a whole process with byte code compiled; the two take turns, and the least of the rounds counts, because other work
can only slow a run down. Exits with 1 if a ratio is above its bar.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.conftest import FIXTURES, ROOT, read_text

BASE = "ec3be3b"
"""Revision that the bars refer to; it is named nowhere else."""
WORK = ROOT / ".venv" / "bench"
LIBRARY = "nvidia-curand==10.4.0.35"
"""Wheel on PyPI whose library has code for twelve archs."""
BAR = 1.1
_NAMESPACE = re.compile(r"(?<=_ZN)(?:5lib_(\d)|6lib_(\d\d))")


class Row(NamedTuple):
    """A command, its input, and the largest ratio of CPU time that passes."""

    name: str
    words: tuple[str, ...]
    bar: float = BAR
    statuses: tuple[int, ...] = (0,)


class Cost(NamedTuple):
    """Cost of one process."""

    cpu: float
    """User and system time in seconds."""
    peak: float
    """Largest resident memory in MB."""


def rows(folder: Path) -> dict[str, Row]:
    """Rows of the table by name; their inputs are made in ``folder``."""
    log, small = folder / "large.log", FIXTURES / "demo" / "head.log"
    log.write_text(large_log(10))
    builds = [folder / f"{name}.log" for name in ("base", "head")]
    for build, toolkit in zip(builds, ("12.9", "13.0"), strict=True):
        build.write_text(read_text(FIXTURES / "large" / f"kernels5000-{toolkit}.log.zst"))
    out = f"json:{folder / 'out.json'}"
    library = str(_library(folder))
    table = (
        Row("log", ("scan", str(log), "-f", out), 1.05),
        Row("check", ("check", str(log)), 1.15, (1,)),
        Row("library", ("scan", library, "-f", out), 1.05, (0, 2)),
        Row("small", ("scan", str(small), "-f", out), 0.8),
        Row("diff", ("diff", *map(str, builds))),
    )
    return {row.name: row for row in table}


def large_log(copies: int) -> str:
    """A real log of 5,000 kernels, repeated with other names in each copy."""
    real = read_text(FIXTURES / "large" / "kernels5000-13.0.log.zst")
    return "".join(_NAMESPACE.sub(lambda match, copy=copy: _renamed(match, copy), real) for copy in range(copies))


def _renamed(match: re.Match[str], copy: int) -> str:
    name = f"lib_{match[1] or match[2]}_{copy}"
    return f"{len(name)}{name}"


def _library(folder: Path) -> Path:
    """The largest library of the wheel, unpacked."""
    wheels = WORK / "wheels"
    if not list(wheels.glob("nvidia*.whl")):
        _call(sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--dest", wheels, LIBRARY)
    with zipfile.ZipFile(next(wheels.glob("nvidia*.whl"))) as archive:
        largest = max(archive.infolist(), key=lambda member: member.file_size)
        return Path(archive.extract(largest, folder))


def installed(revision: str) -> Path:
    """Command of a revision, installed from git; the work tree's own files if ``revision`` is empty."""
    home = WORK / (revision or "now")
    command = home / "bin" / "spillscan"
    if revision and command.exists():
        return command
    shutil.rmtree(home, ignore_errors=True)
    _call(sys.executable, "-m", "venv", home)
    with tempfile.TemporaryDirectory() as source:
        if revision:
            archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
            subprocess.run(["tar", "x", "-C", source], input=archive, check=True)
        _call(home / "bin" / "python", "-m", "pip", "install", "-qq", source if revision else ROOT)
    return command


def _call(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, stdout=sys.stderr)


LAUNCHER = """
import ctypes, os, resource, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
quiet = [(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_WRONLY, 0) for each in (1, 2)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(pid, 0)
try:
    while True:
        os.wait()
except ChildProcessError:
    whole = resource.getrusage(resource.RUSAGE_CHILDREN)
print(os.waitstatus_to_exitcode(status), whole.ru_utime + whole.ru_stime, usage.ru_maxrss / 1024)
"""
"""A small process that starts the command, because a peak includes the memory of the process that starts it.

It also waits for the processes that the command leaves behind: the base never waits for its workers, whose CPU time
would not be counted.
"""


def cost(command: Path, row: Row) -> Cost:
    """Cost of one run of a row's command, in a folder without a policy."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    words = [sys.executable, "-ISc", LAUNCHER, str(command), *row.words]
    with tempfile.TemporaryDirectory() as folder:
        output = subprocess.run(
            words, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True, text=True
        ).stdout
    status, cpu, peak = output.split()
    if int(status) not in row.statuses:
        raise SystemExit(f"{command} {' '.join(row.words)}: exit status {status}")
    return Cost(float(cpu), float(peak))


def least(measures: Sequence[Callable[[], Cost]], rounds: int) -> list[Cost]:
    """Least CPU time and peak of each measure; the measures take turns."""
    taken = [[measure() for measure in measures] for _ in range(rounds)]
    return [
        Cost(min(each.cpu for each in column), min(each.peak for each in column)) for column in zip(*taken, strict=True)
    ]


def main() -> int:
    """Measure each row and print it as it comes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    base, now = installed(BASE), installed("")
    failed: list[str] = []
    print(f"{'':10} {'CPU s':>14} {'ratio':>6} {'bar':>5}   {'peak MB':>14} {'ratio':>6}")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        table = rows(Path(folder))
        for name in arguments.rows or table:
            row = table[name]
            old, new = least([lambda row=row: cost(base, row), lambda row=row: cost(now, row)], arguments.rounds)
            cpu, peak = new.cpu / old.cpu, new.peak / old.peak
            failed += [name] if cpu > row.bar or peak > BAR else []
            shown = f"{old.cpu:.2f} → {new.cpu:.2f}", f"{old.peak:.0f} → {new.peak:.0f}"
            red = "  red" if name in failed else ""
            print(f"{name:10} {shown[0]:>14} {cpu:6.2f} {row.bar:5.2f}   {shown[1]:>14} {peak:6.2f}{red}", flush=True)
    quick = starts_quickly(now, arguments.rounds)
    return int(bool(failed) or not quick)


def starts_quickly(command: Path, rounds: int) -> bool:
    """Print the cost of ``--version`` and of an empty program; whether the former is at most four times the latter."""
    python = command.with_name("python")
    version, empty = Row("start", ("--version",)), Row("start", ("-c", "pass"))
    ours, theirs = least([lambda: cost(command, version), lambda: cost(python, empty)], 2 * rounds)
    ratio = ours.cpu / theirs.cpu
    print(f"{'--version':10} {ours.cpu:14.3f} {ratio:6.2f} {4.0:5.2f}   of `python -c pass`")
    return ratio <= 4


if __name__ == "__main__":
    sys.exit(main())
