"""The packages that only datasets need, imported when they are used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

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


@contextmanager
def without_pandas() -> Iterator[None]:
    """For processes that are ours: Arrow's datasets take pandas along where it is installed, a quarter of a second that
    commands and workers have no use for. Whoever imports it later gets it."""
    if "pandas" in sys.modules:
        yield
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("not now", name=name)
