"""Forty pairs of builds of equal sources: no change and no gap may be reported of any.

    python -m tests.oracle.healthy_oracle [FOLDER | WHEEL …] [--projects N] [--nvcc PATH]

Each project has two sources with templates, lambdas, unnamed namespaces and statics; FOLDER is the clone of a public
one, with all ``.cu`` files below it. It is built twice in one place, once in another checkout for another user's home
and temporary folder, once more with one source compiled anew, by two compilers at once, and, of our own, with
kernels in another order in their sources; logs, objects, the shared library and snapshots are compared. A WHEEL is
compared with itself under another name, and unpacked. Exits with 1 where ``diff --fail-on note --strict``
is anything but silent, or ``check --strict`` with a baseline of the older build anything but green (wheels aside,
whose code does not say all of spills).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.oracle.identity_oracle import source
from tests.oracle.toolchain import FIXTURES, tool

SOURCES = 2
_TEMPLATE = re.compile(r"^template[^\n]*(?: \}\n|\{\n(?: [^\n]*\n)+\}\n)", re.MULTILINE)
_INSTANCES = re.compile(r"instances<\w+>\([^;]*;")


def reordered(text: str) -> str:
    """Source with its templates of unnamed namespaces, and their instances, in reverse order."""
    for pattern in (_TEMPLATE, _INSTANCES):
        found = [match[0] for match in pattern.finditer(text)][:2]
        text = text.replace(found[0], "\0").replace(found[1], found[0]).replace("\0", found[1])
    return text


class Checkout:
    """A built project; ``project``: number of one of ours, or folder of a public one."""

    def __init__(self, folder: Path, nvcc: Path, project: int | Path, home: str = "", *, other_order: bool = False):
        (folder / "home").mkdir(parents=True)
        self.folder, self.nvcc = folder, nvcc
        self.environment = os.environ | {
            "PATH": f"{nvcc.parent}:{os.environ['PATH']}",
            "HOME": home or str(folder / "home"),
            "TMPDIR": str(folder / "home"),
        }
        if isinstance(project, Path):
            shutil.copytree(project, folder / "src", ignore=shutil.ignore_patterns("build", ".git", "test"))
            self.sources = sorted(str(each.relative_to(folder)) for each in (folder / "src").rglob("*.cu"))
        else:
            (folder / "pressure.cuh").write_text((FIXTURES / "sources" / "pressure.cuh").read_text())
            self.sources = [f"part_{at}.cu" for at in range(SOURCES)]
            for at, name in enumerate(self.sources):
                text = source(SOURCES * project + at)
                (folder / name).write_text(reordered(text) if other_order else text)
        self.logs = list(map(self.compile, self.sources))
        self.link()

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [str(self.nvcc), *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout + done.stderr

    def compile(self, name: str) -> str:
        """Compile one source to its object; return its log, as make prints it."""
        flags = ["-arch=sm_90", "-extended-lambda", "-lineinfo", "-Xcompiler", "-fPIC", "-Xptxas", "-v"]
        flags += [f"-I{each}" for each in ("src", "src/include") if (self.folder / each).is_dir()]
        words = (*flags, "-c", name, "-o", self.object_of(name))
        return f"{shlex.join(('nvcc', *words))}\n{self._run(*words)}"

    def object_of(self, name: str) -> str:
        """Path of a source's object, below the folder."""
        (self.folder / "objects").mkdir(exist_ok=True)
        return f"objects/{name.replace('/', '_')[:-3]}.o"

    def link(self) -> None:
        """The library, with its objects in both orders, the build's log in both orders, and a snapshot."""
        objects = [self.object_of(name) for name in self.sources]
        self._run("-shared", "-o", "libparts.so", *objects)
        (self.folder / "reversed").mkdir(exist_ok=True)
        self._run("-shared", "-o", "reversed/libparts.so", *reversed(objects))
        (self.folder / "build.log").write_text("".join(self.logs))
        (self.folder / "reversed.log").write_text("".join(reversed(self.logs)))
        elsewhere = "".join(self.logs).replace(str(self.folder), "/home/runner/work").replace("/tmp/", "/var/tmp/7/")
        (self.folder / "elsewhere.log").write_text(elsewhere)
        snapshot = spillscan("scan", "--with", "code", "-f", "json", str(self.folder / "libparts.so"))
        (self.folder / "parts.json").write_text(snapshot.stdout)

    def again(self) -> None:
        """Compile the last source again."""
        self.compile(self.sources[-1])
        self.link()

    def at_once(self) -> None:
        """All sources, two at a time: each compiler writes into one log when it likes."""
        with (self.folder / "at_once.log").open("a") as log, ThreadPoolExecutor(2) as pool:
            for text in pool.map(self.compile, reversed(self.sources)):
                log.write(text)


def spillscan(*words: str) -> subprocess.CompletedProcess[str]:
    """Output of spillscan."""
    return subprocess.run([sys.executable, "-m", "spillscan", *words], capture_output=True, text=True, check=False)


def pairs(nvcc: Path, folder: Path, project: int | Path) -> Iterator[tuple[str, Path, Path]]:
    """Pairs of one project."""
    here = Checkout(folder / "here", nvcc, project)
    again = Checkout(folder / "again" / "here", nvcc, project)
    there = Checkout(folder / "some" / "where" / "else", nvcc, project, str(folder))
    for what, one, other, name, second in (
        ("built twice, logs", here, again, "build.log", ""),
        ("built twice, objects", here, again, "objects", ""),
        ("built twice, library", here, again, "libparts.so", ""),
        ("logs in another order", here, again, "build.log", "reversed.log"),
        ("objects linked in another order", here, again, "libparts.so", "reversed/libparts.so"),
        ("paths of another machine, logs", here, again, "build.log", "elsewhere.log"),
        ("another checkout and home, logs", here, there, "build.log", ""),
        ("another checkout and home, objects", here, there, "objects", ""),
        ("another checkout and home, library", here, there, "libparts.so", ""),
        ("another checkout and home, snapshot", here, there, "parts.json", "libparts.so"),
    ):
        yield what, one.folder / name, other.folder / (second or name)
    again.again()
    yield "one source compiled anew, objects", here.folder / "objects", again.folder / "objects"
    yield "one source compiled anew, library", here.folder / "libparts.so", again.folder / "libparts.so"
    again.at_once()
    yield "two compilers at once, log", here.folder / "build.log", again.folder / "at_once.log"
    if isinstance(project, int):
        other = Checkout(folder / "order" / "here", nvcc, project, other_order=True)
        yield "kernels in another order, logs", here.folder / "build.log", other.folder / "build.log"
        yield "kernels in another order, library", here.folder / "libparts.so", other.folder / "libparts.so"


def of_wheel(wheel: Path, folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """One package under two names, and unpacked."""
    renamed = folder / re.sub(r"-\d[\w.]*", "-99.0.1", wheel.name, count=1)
    shutil.copy(wheel, renamed)
    yield "under another name", wheel, renamed
    with zipfile.ZipFile(wheel) as package:
        package.extractall(folder / "unpacked")
    yield "unpacked", wheel, folder / "unpacked"


def unlike(base: Path, head: Path, baseline: Path | None) -> Iterator[str]:
    """Changes reported for a pair that should have none."""
    done = spillscan("diff", "--with", "code", "--fail-on", "note", "--strict", str(base), str(head))
    if done.returncode or not done.stdout.startswith("no changes"):
        yield f"diff: exit {done.returncode}\n{done.stdout[:2000]}{done.stderr[:1000]}"
    if baseline is None:
        return
    baseline.unlink(missing_ok=True)
    done = spillscan("baseline", "write", str(base), "-o", str(baseline))
    done = spillscan("check", "--strict", str(head), "--baseline", str(baseline)) if not done.returncode else done
    if done.returncode:
        yield f"{done.args[3]}: exit {done.returncode}\n{done.stdout[:2000]}{done.stderr[:1000]}"


def main() -> int:
    """Build and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", nargs="*", type=Path)
    parser.add_argument("--projects", type=int, default=2)
    parser.add_argument("--nvcc", type=Path)
    arguments = parser.parse_args()
    nvcc = arguments.nvcc or tool("13.0", "nvcc")
    wrong = total = 0
    for project in (*range(arguments.projects), *arguments.given):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            wheel = isinstance(project, Path) and project.suffix == ".whl"
            for what, base, head in of_wheel(project, folder) if wheel else pairs(nvcc, folder, project):
                reported = list(unlike(base, head, None if wheel else folder / "baseline.yaml"))
                total, wrong = total + 1, wrong + bool(reported)
                for each in reported:
                    print(f"project {project}, {what}, {each}", flush=True)
    print(f"{total - wrong} of {total} healthy pairs without a change or a gap")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
