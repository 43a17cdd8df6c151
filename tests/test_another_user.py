"""Jobs, our action and pipelines as a runner has them: another user, no home, nothing of ours but the programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, sized

SOMEBODY = 12345
HIDDEN = f"""\
set -e
IFS=$'\\n'; closed=$1; hold=$2; kept=$3; shift 3
for path in $kept; do mkdir -p "$hold/$path"; mount --bind "$path" "$hold/$path"; done
for path in $closed; do mount -t tmpfs -o mode=755 none "$path"; done
for path in $kept; do mkdir -p "$path"; mount --bind "$hold/$path" "$path"; done
exec setpriv --reuid={SOMEBODY} --regid={SOMEBODY} --clear-groups \\
  env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/nonexistent PYTHONDONTWRITEBYTECODE=1 "$@"
"""
"""In a view of the file system of its own folders are open and empty but for the Python and the checkout in them."""


def may() -> bool:
    """Whether this process can have such a view, and be another user in it."""
    if os.name != "posix" or os.geteuid() or not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not may(), reason="rights: not root, or in a container that allows no mounts")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of another user; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def first_closed(path: Path) -> Path | None:
    """The topmost folder on the way to a path that others may not enter."""
    return next((each for each in reversed(path.parents) if not each.stat().st_mode & 0o001), None)


def as_another(place: Path, *words: str | Path) -> tuple[int, str]:
    """How ``words`` end in a folder of theirs, and what they say."""
    for path in (place, *place.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY, follow_symlinks=False)
    needed = {Path(sys.base_prefix), Path(sys.prefix), ROOT}
    closed = {Path.home(), *filter(None, map(first_closed, needed))}
    closed = {each for each in closed if closed.isdisjoint(each.parents)}
    kept = sorted(path for path in needed if any(path.is_relative_to(each) for each in closed))
    with tempfile.TemporaryDirectory() as hold:
        folders = ["\n".join(map(str, sorted(closed))), hold, "\n".join(map(str, kept))]
        view = ["unshare", "-m", "bash", "-c", HIDDEN, "view", *folders]
        done = subprocess.run([*view, *map(str, words)], cwd=place, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_workflows_hooks_and_the_action(place: Path) -> None:
    """Those of the documents, by their own tests."""
    some = sized("what_got_worse and action or pre_commit", "what_got_worse or pre_commit")
    chosen = ("-k", some, "-c", ROOT / "pyproject.toml")
    options = ("-p", "no:cacheprovider", "--basetemp", place / "temp", "--rootdir", ROOT)
    tests = ROOT / "tests" / "test_gate_docs.py"
    status, said = as_another(place, sys.executable, "-m", "pytest", *options, *chosen, tests)
    assert status == 0, said
    assert " passed" in said, said
