"""Finds and compiles the grammars of ``grammars/``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark

_HERE = Path(__file__).resolve().parent
_FOLDERS = (_HERE / "grammars", _HERE.parent / "grammars")


def _folder() -> Path:
    return next(folder for folder in _FOLDERS if folder.is_dir())


@cache
def text(name: str) -> str:
    """The source of ``grammars/NAME.lark``."""
    return (_folder() / f"{name}.lark").read_text(encoding="utf-8")


@cache
def load(name: str, **options: Any) -> Lark:
    """The compiled grammar ``NAME``; equal calls give the same object. Several start rules come as a tuple."""
    if isinstance(options.get("start"), tuple):
        options["start"] = list(options["start"])
    return Lark(text(name), import_paths=[str(_folder())], **options)
