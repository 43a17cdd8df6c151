"""The packages that only datasets need, imported when they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spillscan.errors import InputError


@contextmanager
def needed(what: str = "a dataset") -> Iterator[None]:
    """Imports of packages from the extra ``data``; :class:`~spillscan.errors.InputError` where one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "spillscan"):
            raise
        hint = "pip install 'spillscan[data]'"
        raise InputError(f"{what} needs {package}, which is not installed", hint) from error
