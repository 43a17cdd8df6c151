"""Kills `wrap`, and everything that writes files, at random moments. Not part of `make test`.

    python -m tests.oracle.kill_oracle [KILLS [SEED]]

KILLS (200) of `wrap` with a compiler that takes its time, and as many of the writers together. After each: a record is
whole or absent, and speaks of the object beside it or a gap says that it may not; a file is as it was or as it should
be; a dataset holds whole builds. After the next whole run nothing is left. Exits with 1 where anything else is found.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import spillscan
from spillscan.model import Build
from spillscan.output.errors import SpillscanError

ROOT = Path(__file__).resolve().parents[2]
LOGS = [ROOT / "fixtures" / "demo" / f"{name}.log" for name in ("base", "head")]
COMPILER = """#!{python} -S
import os, sys, time
log = open(os.environ["LOG"]).read()
with open("a.cu.o", "w") as made:
    made.write(os.environ["LOG"])
for start in range(0, len(log), 400):
    sys.stderr.write(log[start:start + 400])
    sys.stderr.flush()
    time.sleep(0.004)
"""
WRAP = ("wrap", "--", "nvcc", "-Xptxas", "-v", "-c", "a.cu", "-o", "a.cu.o")


class Killer:
    """A folder in which programs are killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.found: Counter[str] = Counter()
        self.wrong: list[str] = []
        compiler = folder / "bin" / "nvcc"
        compiler.parent.mkdir()
        compiler.write_text(COMPILER.format(python=sys.executable))
        compiler.chmod(0o755)
        self.work = folder / "work"
        self.work.mkdir()

    def start(self, *words: str, log: Path = LOGS[0]) -> subprocess.Popen[bytes]:
        """A command of spillscan in a group of processes of its own."""
        path = os.pathsep.join((str(self.folder / "bin"), os.environ["PATH"]))
        environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "LOG": str(log)}
        command = [sys.executable, "-m", "spillscan", *words]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=self.work, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def killed(self, seconds: float, *words: str, log: Path = LOGS[0]) -> None:
        """Start a command and kill it alone, at a random moment of so many seconds; wait for what it started."""
        process = self.start(*words, log=log)
        time.sleep(self.random.uniform(0, seconds))
        process.send_signal(signal.SIGKILL)
        self.found["killed" if process.wait() == -signal.SIGKILL else "ended before"] += 1
        for _ in range(1000):
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.01)

    def took(self, *words: str) -> float:
        """How long a command takes, with some to spare."""
        begin = time.perf_counter()
        assert self.start(*words).wait() in (0, 1), words
        return 1.1 * (time.perf_counter() - begin)

    def until(self, kills: int) -> Iterator[int]:
        """Numbers, until so many were killed: some end before."""
        number = 0
        while self.found["killed"] < kills:
            yield number
            number += 1

    def expect(self, holds: object, what: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.wrong.append(what)


def figures(build: Build) -> Counter[object]:
    """What is said of each kernel."""
    return Counter((kernel.key.symbol, kernel.key.arch, kernel.usage) for kernel in build.kernels)


def records(killer: Killer, kills: int) -> None:
    """`wrap`, killed."""
    expected = {str(log): figures(spillscan.scan(log)) for log in LOGS}
    seconds = killer.took(*WRAP)
    made, record = killer.work / "a.cu.o", killer.work / "a.cu.o.spillscan.log"
    for number in killer.until(kills):
        log = LOGS[number % 2]
        killer.killed(seconds, *WRAP, log=log)
        try:
            build = spillscan.scan(killer.work)
        except SpillscanError:
            build = Build()
        gap = any(issue.hidden for issue in build.issues) or not build.kernels
        found = figures(build)
        killer.expect(not found or found in expected.values(), f"{number}: half a record was read")
        killer.expect(gap or found == expected[made.read_text()], f"{number}: a record of another object")
        killer.found["gap" if gap else "whole"] += 1
        if number % 5 == 4:
            assert killer.start(*WRAP, log=log).wait() == 0
            killer.expect(not list(killer.work.glob(".spillscan-*")), f"{number}: a draft was left")
            whole = spillscan.scan(killer.work)
            killer.expect(not whole.issues and figures(whole) == expected[str(log)], f"{number}: not fixed")
            if number % 10 == 9:
                record.unlink()  # and once from the beginning


def writers(killer: Killer, kills: int) -> None:
    """What writes reports, baselines, policies and datasets, killed."""
    base, head = map(str, LOGS)
    shutil.rmtree(killer.work)
    killer.work.mkdir()
    commands: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "report.json": (("scan", base, "-f", "json:report.json"), ("scan", head, "-f", "json:report.json")),
        "out.sarif": (("check", base, "-f", "sarif:out.sarif"), ("check", head, "-f", "sarif:out.sarif")),
        "page.html": (("scan", base, "-f", "html:page.html"), ("scan", head, "-f", "html:page.html")),
        "b.yaml": (("baseline", "write", base, "-o", "b.yaml"), ("baseline", "write", head, "-o", "b.yaml")),
        "spillscan.yaml": (("init", base, "--yes"), ("init", head, "--yes")),
        "data": (
            ("history", "audit", base, "--dataset", "data", "--append", "--label", "one"),
            ("history", "audit", head, "--dataset", "data", "--append", "--label", "two"),
        ),
    }
    wholes: dict[str, set[bytes]] = {}
    seconds = {}
    for name, both in commands.items():
        for words in both:
            seconds[name] = killer.took(*words)
            if name != "data":
                wholes.setdefault(name, set()).add((killer.work / name).read_bytes())
    for first, second in (
        commands["b.yaml"],
        commands["b.yaml"][::-1],
    ):  # the second keeps kernels of the first
        (killer.work / "b.yaml").unlink(missing_ok=True)
        for words in (first, second):
            killer.took(*words)
            wholes["b.yaml"].add((killer.work / "b.yaml").read_bytes())
    shutil.rmtree(killer.work)
    killer.work.mkdir()
    for number in killer.until(kills):
        name = killer.random.choice([*commands])
        words = commands[name][number % 2]
        killer.killed(seconds[name], *words)
        place = killer.work / name
        if name == "data":
            kept = {"one": figures(spillscan.scan(base)), "two": figures(spillscan.scan(head))}
            for each in spillscan.open_dataset(str(place)).builds if place.exists() else ():
                build = spillscan.scan(f"{place}/@{each.label}")
                killer.expect(figures(build) == kept[each.label], f"{number}: half a build in the dataset")
        elif name == "spillscan.yaml":
            for file in ("spillscan.yaml", "spillscan-baseline.jsonl"):
                text = (killer.work / file).read_text() if (killer.work / file).exists() else "\n"
                killer.expect(text.endswith("\n"), f"{number}: half of {file}")
                (killer.work / file).unlink(missing_ok=True)
        elif place.exists():
            killer.expect(place.read_bytes() in wholes[name], f"{number}: half of {name}")
        for path in killer.work.glob(".spillscan-*"):
            os.utime(path, (0, 0))  # it is old by now
    for name, both in commands.items():
        if name != "data":
            assert killer.start(*both[0]).wait() in (0, 1)
    killer.expect(not list(killer.work.glob(".spillscan-*")), "a draft of a report was left")
    killer.expect(figures(spillscan.scan(killer.work / "report.json")) == figures(spillscan.scan(base)), "not fixed")


def main() -> int:
    """Kill both, and say what was found."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 20261
    bad = 0
    for what in (records, writers):
        with tempfile.TemporaryDirectory() as place:
            killer = Killer(Path(place), seed)
            what(killer, kills)
        said = ", ".join(f"{count} {state}" for state, count in sorted(killer.found.items()))
        print(f"{what.__name__}: {said}; {len(killer.wrong)} wrong")
        print("".join(f"  {each}\n" for each in killer.wrong[:20]), end="")
        bad += len(killer.wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
