"""Forty pairs of builds of equal sources: no change and no hole may be told of any.

    python -m tests.oracle.healthy_oracle [--projects N] [--nvcc PATH]

Each project has two sources with templates, lambdas, unnamed namespaces and statics. It is built twice in one place,
once in another checkout for another user's home and temporary folder, and once more with one source compiled anew;
logs, objects, the shared library and snapshots are compared, also with their files in another order. Exits with 1 where
``diff --fail-on note --strict`` is anything but silent.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import FIXTURES, ROOT
from tests.oracle.identity_oracle import source

sys.path.insert(0, str(ROOT / "fixtures"))

from maker.toolchains import Toolchains

SOURCES = 2


class Checkout:
    """One project, built."""

    def __init__(self, folder: Path, nvcc: Path, number: int, home: str) -> None:
        folder.mkdir(parents=True)
        (folder / "home").mkdir()
        self.folder, self.nvcc = folder, nvcc
        self.environment = os.environ | {
            "PATH": f"{nvcc.parent}:{os.environ['PATH']}",
            "HOME": home or str(folder / "home"),
            "TMPDIR": str(folder / "home"),
        }
        (folder / "pressure.cuh").write_text((ROOT / "fixtures" / "sources" / "pressure.cuh").read_text())
        for at in range(SOURCES):
            (folder / f"part_{at}.cu").write_text(source(SOURCES * number + at))
            self.compile(at)
        self.link()

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [str(self.nvcc), *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout + done.stderr

    def compile(self, at: int) -> None:
        """One source: its object and its log."""
        flags = ("-arch=sm_90", "-extended-lambda", "-lineinfo", "-Xcompiler", "-fPIC", "-Xptxas", "-v")
        log = self._run(*flags, "-c", f"part_{at}.cu", "-o", f"part_{at}.o")
        (self.folder / f"part_{at}.log").write_text(log)

    def link(self) -> None:
        """The library, the build's log in both orders, and a snapshot."""
        self._run("-shared", "-o", "libparts.so", *(f"part_{at}.o" for at in range(SOURCES)))
        logs = [(self.folder / f"part_{at}.log").read_text() for at in range(SOURCES)]
        (self.folder / "build.log").write_text("".join(logs))
        (self.folder / "reversed.log").write_text("".join(reversed(logs)))
        (self.folder / "objects").mkdir(exist_ok=True)
        for at in range(SOURCES):
            (self.folder / "objects" / f"part_{at}.o").write_bytes((self.folder / f"part_{at}.o").read_bytes())
        snapshot = spillscan("scan", "--code", "-f", "json", str(self.folder / "libparts.so"))
        (self.folder / "parts.json").write_text(snapshot.stdout)


def spillscan(*words: str) -> subprocess.CompletedProcess[str]:
    """What it says."""
    return subprocess.run([sys.executable, "-m", "spillscan", *words], capture_output=True, text=True, check=False)


def pairs(nvcc: Path, folder: Path, number: int) -> Iterator[tuple[str, Path, Path]]:
    """Ten of each project."""
    here = Checkout(folder / "here", nvcc, number, "")
    again = Checkout(folder / "again" / "here", nvcc, number, "")
    there = Checkout(folder / "some" / "where" / "else", nvcc, number, str(folder))
    for what, one, other, name, second in (
        ("built twice, logs", here, again, "build.log", ""),
        ("built twice, objects", here, again, "objects", ""),
        ("built twice, library", here, again, "libparts.so", ""),
        ("logs in another order", here, again, "build.log", "reversed.log"),
        ("another checkout and home, logs", here, there, "build.log", ""),
        ("another checkout and home, objects", here, there, "objects", ""),
        ("another checkout and home, library", here, there, "libparts.so", ""),
        ("another checkout and home, snapshot", here, there, "parts.json", "libparts.so"),
    ):
        yield what, one.folder / name, other.folder / (second or name)
    again.compile(1)
    again.link()
    yield "one source compiled anew, objects", here.folder / "objects", again.folder / "objects"
    yield "one source compiled anew, library", here.folder / "libparts.so", again.folder / "libparts.so"


def main() -> int:
    """Build and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--projects", type=int, default=4)
    parser.add_argument("--nvcc", type=Path)
    arguments = parser.parse_args()
    nvcc = arguments.nvcc or Toolchains(FIXTURES / "cases.yaml", None).root("13.0") / "bin" / "nvcc"
    wrong = total = 0
    for number in range(arguments.projects):
        with tempfile.TemporaryDirectory() as folder:
            for what, base, head in pairs(nvcc, Path(folder), number):
                done = spillscan("diff", "--code", "--fail-on", "note", "--strict", str(base), str(head))
                silent = done.returncode == 0 and done.stdout.startswith("no changes")
                total, wrong = total + 1, wrong + (not silent)
                if not silent:
                    print(f"project {number}, {what}: exit {done.returncode}\n{done.stdout[:2000]}{done.stderr[:1000]}")
    print(f"{total - wrong} of {total} healthy pairs without a change or a hole")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
