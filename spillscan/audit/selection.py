"""Which of the files that are found shall be read: by name and by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the user leaves out."""

    exclude: Sequence[str] = ()
    """Glob patterns; see :meth:`excludes`."""
    most_bytes: int | None = None
    """Larger files are not read."""

    def excludes(self, below: str) -> bool:
        """Whether a pattern matches ``below`` (the path below the input, with ``/``), or the name of the file or of one
        of the folders in it."""
        parts = below.split("/")
        return any(
            fnmatchcase(below, pattern) or any(fnmatchcase(part, pattern) for part in parts)
            for pattern in (each.strip("/") for each in self.exclude)
        )

    def refusal(self, below: str, size_bytes: int | None) -> str:
        """Why a file is not read; empty where nothing speaks against it."""
        if self.exclude and self.excludes(below):
            return "excluded"
        if size_bytes == 0:
            return "empty"
        if self.most_bytes is not None and (size_bytes or 0) > self.most_bytes:
            return f"larger than {self.most_bytes:,} bytes"
        return ""
