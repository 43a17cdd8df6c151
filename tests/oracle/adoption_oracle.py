"""Runs what docs/internals/adoption.md says of public projects: from a clone to a red gate. Not part of `make test`.

    python -m tests.oracle.adoption_oracle [NAME ...]

nvcc and its libraries come from PyPI, the projects from where the document clones them (git's own ``url.….insteadOf``
takes them from elsewhere). make, cmake and a C++ compiler must be there. Before the planted change the gate must pass,
after it fail, and say what the document says. Exits with 1 where it does not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.oracle.toolchain import ROOT, root
from tests.services import PERSON

PROJECT = re.compile(r"```sh\n(?P<script>git clone \S+/(?P<name>\S+) .*?)```\n\n(?P<said>.*?)(?=\n\n)", re.S)
FINDING = re.compile(r"`([^`]+\[(?:spill|blocks-lost), \w+\])`")
MOST_COMMANDS = 10
GREEN = "-- the gate passes --"
PLANT = re.compile(r"^sed -i ", re.M)
CHECK = re.compile(r"^spillscan check .*", re.M)


def environment(toolkit: Path, home: Path) -> dict[str, str]:
    """Environment of a user's shell with CUDA and spillscan installed."""
    own = home / "bin"
    own.mkdir()
    (own / "spillscan").write_text(f'#!/bin/sh\nexec {sys.executable} -m spillscan "$@"\n')
    (own / "spillscan").chmod(0o755)
    return (
        os.environ
        | PERSON
        | {
            "PATH": os.pathsep.join((str(own), str(toolkit / "bin"), os.environ["PATH"])),
            "PYTHONPATH": str(ROOT),
            "CUDACXX": str(toolkit / "bin" / "nvcc"),
            "CUDA_PATH": str(toolkit),
            "CUDA_HOME": str(toolkit),
            "LIBRARY_PATH": str(toolkit / "lib"),
            "CPATH": str(toolkit / "include"),
        }
    )


def holds(match: re.Match[str], toolkit: Path) -> bool:
    """Check one project."""
    script, said = match["script"], " ".join(match["said"].split())
    expected = list(FINDING.findall(said))
    planted, check = PLANT.search(script), CHECK.findall(script)[-1]
    assert planted is not None
    commands = len(script.strip().splitlines())
    with tempfile.TemporaryDirectory() as place:
        own = environment(toolkit, Path(place))

        text = f"set -e\n{script[: planted.start()]}{check}\necho '{GREEN}'\n{script[planted.start() :]}"
        words = ["bash", "-o", "pipefail", "-c", text]
        done = subprocess.run(words, cwd=place, env=own, capture_output=True, text=True, check=False)
    before, _, after = done.stdout.partition(GREEN)
    found = [each for each in expected if each in " ".join(after.split())]
    good = bool(after) and done.returncode == 1 and bool(found) and commands <= MOST_COMMANDS
    print(
        f"{'ok  ' if good else 'FAIL'} {match['name']}: {commands} commands; passes before: {bool(after)}, after:"
        f" {done.returncode}; {len(found)} of {len(expected)} findings that the document quotes"
    )
    if not good:
        print(before[-2000:], after[-2000:], done.stderr[-2000:], sep="\n")
    return good


def main() -> int:
    """All projects, or those that are named."""
    toolkit = root("projects-13.5")
    names = sys.argv[1:]
    found = list(PROJECT.finditer((ROOT / "docs" / "internals" / "adoption.md").read_text(encoding="utf-8")))
    results = [holds(match, toolkit) for match in found if not names or match["name"] in names]
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
