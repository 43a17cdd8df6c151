"""Run a build and keep what becomes of it: each compilation with its command, its exit status, its sources' digests and
what its compiler says of kernels, in one file that `spillscan scan` and `check` read. The build's output and its exit
status are its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from spillscan.output.errors import UsageError
from spillscan.output.nouns import count
from spillscan.output.terminal import complain

if TYPE_CHECKING:
    from spillscan.builds.buildfile import BuildFile

_NAMED = 3
EPILOG = "Example: spillscan run -- make; CMake: spillscan run -- cmake -B FRESH, spillscan run -- cmake --build FRESH"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where the build is kept; what a run before left there, and this one does not compile again, stays"
        " (default: spillscan-build.json)",
    )
    parser.add_argument(
        "--intercept",
        action="store_true",
        help="let bear, where it is installed, see each program start: also compilers that are called by their path or"
        " with another environment; a build takes about half as long again",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND …", help="what builds")


def run(arguments: argparse.Namespace) -> int:
    """The build's exit status; 128 and the signal where one ended it."""
    from spillscan.builds import buildfile, watching
    from spillscan.builds.databases import expected
    from spillscan.output.files import Target

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UsageError("no command to run", "write spillscan run -- make")
    path = arguments.output or buildfile.NAME
    target = Target(path)
    target.check()
    before = buildfile.read(path)
    sys.stdout.flush()
    seen = watching.watch(command, os.environ, os.curdir, intercept=arguments.intercept)
    build = watching.account_of(seen, command, os.curdir, before, expected(os.curdir))
    target.write(buildfile.encoded(buildfile.moved(build, os.path.relpath(os.curdir, os.path.dirname(path) or "."))))
    for note in build.notes:
        complain(note)
    complain(f"{_summary(build)}; {path}")
    return seen.status if seen.status >= 0 else 128 - seen.status


def _summary(build: BuildFile) -> str:
    """``26 units: 25 done, 1 failed (a.cu)``."""
    units = [kept.unit for kept in build.units]
    by_state: dict[str, list[str]] = {}
    for unit in units:
        by_state.setdefault(unit.state, []).append(unit.name)
    said = []
    for state, names in by_state.items():
        more = " …" if len(names) > _NAMED else ""
        named = "" if state == "done" else f" ({', '.join(names[:_NAMED])}{more})"
        said.append(f"{len(names)} {state}{named}")
    if not units:
        return (
            "no compilation was seen: a configure step has none; else none was due, or the compiler is called by its"
            " path (make NVCC=nvcc; CMake: a fresh folder, `spillscan run --` before both steps)"
        )
    return f"{count(len(units), 'unit')}: {', '.join(said)}"
