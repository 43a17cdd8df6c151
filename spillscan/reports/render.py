"""Opens what reports are written to: standard output or files, never half-written."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import TextIO

from spillscan import reports
from spillscan.errors import UsageError
from spillscan.reports import Kind, Report, Style

BATCH_PIECES = 64
"""Pieces written at once: small enough that their text needs no memory map of its own."""
PLAIN_WIDTH = 120
"""Columns where no terminal says how many there are."""


def write(report: Report, wanted: Sequence[str], rows: int | None) -> None:
    """Write ``report`` in each of the ``wanted`` forms ``FORMAT[:FILE]``; without any, as text to standard output."""
    targets = [_target(form) for form in wanted or ("text",)]
    if sum(path is None for _, path in targets) > 1:
        raise UsageError("two formats for standard output", "give all but one a file: -f json:build.json")
    for name, path in targets:
        pieces = reports.all_formats()[name].render(report, _style(rows, path is None))
        if path is None:
            if hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(encoding="utf-8", errors="replace")
            _copy(pieces, sys.stdout)
        else:
            write_whole(pieces, path)


def check_forms(wanted: Sequence[str], kind: Kind) -> None:
    """Refuse a wrong ``-f``, or a format that has nothing for this ``kind``, before any work is done."""
    known = reports.all_formats()
    for form in wanted:
        name, _ = _target(form)
        if kind not in known[name].KINDS:
            able = ", ".join(other for other, module in known.items() if kind in module.KINDS)
            raise UsageError(f"{name} cannot show a {kind}", f"choose from {able}")


def _target(form: str) -> tuple[str, str | None]:
    name, colon, path = form.partition(":")
    if name not in reports.all_formats():
        raise UsageError(f"there is no format {name!r}", f"choose from {', '.join(reports.all_formats())}")
    if colon and not path:
        raise UsageError(f"{form!r} names no file", f"write {name}:FILE, or {name} for standard output")
    return name, path or None


def _style(rows: int | None, to_terminal: bool) -> Style:
    stream = sys.stdout
    terminal = to_terminal and stream.isatty()
    forced = os.environ.get("FORCE_COLOR", "") not in ("", "0") and to_terminal
    color = not os.environ.get("NO_COLOR") and (forced or (terminal and os.environ.get("TERM") != "dumb"))
    width = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns if terminal or "COLUMNS" in os.environ else PLAIN_WIDTH
    return Style(width=max(60, width), color=color, rows=rows)


def write_whole(pieces: Iterable[str], path: str) -> None:
    """Write beside ``path`` first: a failure leaves what was there."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".spillscan-")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            _copy(pieces, file)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    except BaseException:
        os.unlink(temporary)
        raise


def _copy(pieces: Iterable[str], file: TextIO) -> None:
    batch: list[str] = []
    for piece in pieces:
        batch.append(piece)
        if len(batch) >= BATCH_PIECES:
            file.write("".join(batch))
            batch.clear()
    file.write("".join(batch))
