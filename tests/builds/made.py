"""Run files, as ``spillscan run`` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillscan.builds.record import BuildRecord, Call, Run, encoded


def call(folder: Path, command: Sequence[str], **more: Any) -> Call:
    """A call that ended well, unless ``more`` says else."""
    known = {"began_ns": 1, "command": tuple(command), "folder": str(folder), "status": 0, "headers": True}
    return Call(**{**known, **more})


def run_file(path: Path, *calls: Call, **more: Any) -> Path:
    """A run file of these calls."""
    runs = (Run(command=("make",), folder=str(path.parent), status=0),)
    path.write_text(encoded(BuildRecord(**{"runs": runs, "calls": calls, **more})))
    return path
