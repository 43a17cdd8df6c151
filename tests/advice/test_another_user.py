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
home=$1; hold=$2; kept=$3; shift 3
for path in $kept; do mkdir -p "$hold/$path"; mount --bind "$path" "$hold/$path"; done
mount -t tmpfs -o mode=755 none "$home"
for path in $kept; do mkdir -p "$path"; mount --bind "$hold/$path" "$path"; done
exec setpriv --reuid={SOMEBODY} --regid={SOMEBODY} --clear-groups \\
  env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/nonexistent PYTHONDONTWRITEBYTECODE=1 "$@"
"""
"""In a view of the file system of its own the home is empty, but for the Python that lies there."""


def may() -> bool:
    """Whether this process can have such a view, and be another user in it."""
    if os.name != "posix" or os.geteuid() or not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not may(), reason="not root, or in a container that allows no mounts")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of another user; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def as_another(place: Path, *words: str | Path) -> tuple[int, str]:
    """How ``words`` end in a folder of theirs, and what they say."""
    for path in (place, *place.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY, follow_symlinks=False)
    home = Path.home()
    kept = [path for path in {Path(sys.base_prefix), Path(sys.prefix), ROOT} if path.is_relative_to(home)]
    with tempfile.TemporaryDirectory() as hold:
        view = ["unshare", "-m", "bash", "-c", HIDDEN, "view", str(home), hold, " ".join(map(str, kept))]
        done = subprocess.run([*view, *map(str, words)], cwd=place, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_workflows_hooks_and_the_action(place: Path) -> None:
    """Those of the documents, by their own tests."""
    some = sized("what_got_worse and action or pre_commit", "what_got_worse or pre_commit")
    chosen = ("-k", some, "-c", ROOT / "pyproject.toml")
    options = ("-p", "no:cacheprovider", "--basetemp", place / "temp", "--rootdir", ROOT)
    tests = ROOT / "tests" / "advice" / "test_gate_docs.py"
    status, said = as_another(place, sys.executable, "-m", "pytest", *options, *chosen, tests)
    assert status == 0, said
    assert " passed" in said, said
