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
        if not error.name or error.name.partition(".")[0] == "spillscan":
            raise
        raise InputError(
            f"{what} needs {error.name}, which is not installed", "pip install 'spillscan[data]'"
        ) from error
