"""Writes anew what tests hold to what is made now: golden files, tables of documents, schemas. ``make golden``, or

    python -m tests.writers [WORD ...]     those alone in whose names a word stands: rules, docs, stored ...

Every test module that is a program is one; where a test of it fails, ``conftest.py`` names it. Read the diff.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent


def writes(path: Path) -> bool:
    """Whether the test module is a program."""
    return '\nif __name__ == "__main__":\n' in path.read_text(encoding="utf-8")


def program(path: Path) -> str:
    """The command that runs it."""
    return f"python -m {'.'.join(path.relative_to(TESTS.parent).with_suffix('').parts)}"


def main(words: list[str]) -> str:
    """Run them one after the other, since some write into the same page; those that failed."""
    failed = []
    for path in sorted(TESTS.rglob("test_*.py")):
        name = program(path)
        if writes(path) and (not words or any(word in name for word in words)):
            began = time.monotonic()
            done = subprocess.run([sys.executable, *name.split()[1:]], cwd=TESTS.parent, check=False)
            failed += [name] * bool(done.returncode)
            print(f"{name}: {time.monotonic() - began:.0f} s{', failed' if done.returncode else ''}", flush=True)
    return f"failed: {', '.join(failed)}" if failed else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) or 0)
