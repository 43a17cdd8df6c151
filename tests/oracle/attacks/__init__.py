"""Kinds of attack: each takes real inputs, damages them, and judges what the readers and the gates make of it.

Damage after which an input is what an undisturbed tool could have written leaves no trace: a log that is cut exactly
between two complete blocks, one registers line instead of another. No reader can see it, and none is asked to.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spillscan.cli import main


@dataclass(slots=True)
class Attack:
    """A damaged input and its result."""

    damage: str
    sample: str
    shown: str
    failures: list[str]


def gate(files: Mapping[str, bytes], command: str, *options: str) -> tuple[int, str]:
    """Exit status and standard error of a gate with the inputs ``files``."""
    out, said = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with tempfile.TemporaryDirectory(prefix="attack-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        paths = [str(Path(folder, name)) for name in files]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            status = main([command, *paths, *options, "--config", "none", "-f", "json"])
    gc.enable()  # a command switches it off
    return status, said.getvalue()


def crashed(said: str) -> bool:
    """Whether a gate reports an unexpected error."""
    return "unexpected error" in said or "Traceback" in said
