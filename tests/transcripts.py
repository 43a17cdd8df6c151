"""Transcripts: files of calls, each with what it prints.

A line ``$ spillscan WORDS`` is a call; its output, its errors and its exit status follow. To add a call, write its line
and run ``make golden``, which prints all again; read the diff.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from tests.conftest import FIXTURES, run

_CALL = re.compile(r"(?m)^\$ spillscan ?(.*)$")
_SETTINGS = ("COLUMNS", "FORCE_COLOR", "GITHUB_WORKSPACE", "CI_PROJECT_DIR", "SPILLSCAN_DATASET")


def replayed(transcript: Path, folder: Path = FIXTURES) -> str:
    """The transcript as its calls print it now, in ``folder``."""
    calls = _CALL.findall(transcript.read_text(encoding="utf-8"))
    return "\n".join(f"$ spillscan {call}\n{_printed(call, folder)}" for call in calls)


def _printed(call: str, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
    done = run(*shlex.split(call), cwd=folder, env=environment)
    return f"{done.stdout.decode()}{done.stderr.decode()}[{done.returncode}]\n"
