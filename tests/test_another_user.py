"""Jobs, our action and pipelines as a runner has them: another user, no home, nothing of ours but the programs.

``make test`` from its set-up on: for another user, in a folder closed to others, with a blank in its path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
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
    """Topmost folder of a path that others may not enter."""
    return next((each for each in reversed(path.parents) if not each.stat().st_mode & 0o001), None)


def as_another(place: Path, *words: str | Path) -> tuple[int, str]:
    """Status and output of ``words``, run by another user in a folder of their own."""
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
    """Those in the documents, by their own tests."""
    some = sized("what_got_worse and action or pre_commit", "what_got_worse or pre_commit")
    chosen = ("-k", some, "-c", ROOT / "pyproject.toml")
    options = ("-p", "no:cacheprovider", "--basetemp", place / "temp", "--rootdir", ROOT)
    tests = ROOT / "tests" / "test_gate_docs.py"
    status, said = as_another(place, sys.executable, "-m", "pytest", *options, *chosen, tests)
    assert status == 0, said
    assert " passed" in said, said


ALREADY_INSTALLED = f"PYTHONPATH={sysconfig.get_path('purelib')}"
"""For pip, which then installs nothing but the project itself."""
SOME_TESTS = "PYTEST_ADDOPTS=-k 'unreadable or disk or streams or pre_commit' tests/commands tests/test_gate_docs.py"


@pytest.mark.oracle
@pytest.mark.parametrize("where", ["another user", "a folder closed to others", "a blank in its path"])
def test_make_test_runs_from_its_set_up_on(where: str, place: Path) -> None:
    checkout = place / where.removesuffix(" in its path")
    for name in subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(
        b"\0"
    ):
        if name and (source := ROOT / name.decode()).is_file():
            (checkout / name.decode()).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, checkout / name.decode())
    words = ["make", "-C", str(checkout), "test", f"PYTHON={sys.executable}"]
    if where == "another user":
        place.chmod(0o755)
        status, said = as_another(place, "env", ALREADY_INSTALLED, SOME_TESTS, *words)
    else:
        place.chmod(0o700)
        done = subprocess.run(
            ["env", ALREADY_INSTALLED, SOME_TESTS, *words], capture_output=True, text=True, check=False
        )
        status, said = done.returncode, done.stdout + done.stderr
    assert status == 0, said
    assert " passed" in said, said
    assert (checkout / ".venv" / "bin" / "spillscan").exists()
