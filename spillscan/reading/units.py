"""The account of a build that was read: its units, by records, by runs, and by what its build systems list."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache

from spillscan.builds import account, records
from spillscan.builds.account import File
from spillscan.builds.compilation import parse
from spillscan.builds.databases import expected, seen_from_here
from spillscan.model import Issue
from spillscan.model.units import Unit


class Files:
    """The files of a build as they are now, each looked at once."""

    def __init__(self) -> None:
        self.file = cache(self._file)

    def _file(self, path: str, *, digest: bool = False) -> File | None:
        try:
            seconds = os.stat(path).st_mtime
        except OSError:
            return None
        held = records.digest_of(path) if digest else ""
        return None if held is None else File(seconds, held)


def of_record(path: str) -> Unit | None:
    """The unit whose record file ``path`` is; ``None`` where it is no record that can be read."""
    said = records.recorded(path)
    if said is None:
        return None
    parsed = parse(said.command)
    source = "" if parsed is None else parsed.source
    status = said.status
    return Unit(
        source=seen_from_here(os.path.join(said.folder, source), os.path.dirname(path)) if source else "",
        object=records.object_of(path),
        record=path,
        folder=said.folder,
        command=said.command,
        state="done" if not status else "killed" if status < 0 else "failed",
        status=status,
        digests=said.digests,
        evidence=(account.RECORD,),
    )


def of_build(folders: Iterable[str], seen: Sequence[Unit], read: Iterable[str]) -> tuple[list[Unit], list[Issue]]:
    """The units of a build, of whose inputs these are ``folders``, and what they leave open. ``seen``: by records and
    runs; ``read``: the objects and libraries whose machine code was read."""
    listed = [unit for folder in folders for unit in expected(folder)]
    files = Files()
    units = account.merged(seen, listed, files)
    wanted = {os.path.realpath(unit.object): unit.command for unit in listed if unit.command}
    return units, list(account.issues(units, frozenset(map(os.path.realpath, read)), files, wanted))
