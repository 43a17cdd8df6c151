"""Finds and compiles the grammars of ``grammars/``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lark import Lark

_HERE = Path(__file__).resolve().parent


@cache
def folder() -> Path:
    """Where the grammars lie: inside the installed package, or beside it in a checkout."""
    return next(folder for folder in (_HERE / "grammars", _HERE.parent / "grammars") if folder.is_dir())


def text(name: str) -> str:
    """The source of grammar ``name``."""
    return (folder() / f"{name}.lark").read_text(encoding="utf-8")


@cache
def load(name: str, *starts: str) -> Lark:
    """Grammar ``name``, compiled for LALR."""
    from lark import Lark

    return Lark(
        text(name),
        parser="lalr",
        start=list(starts or ("start",)),
        source_path=str(folder() / f"{name}.lark"),
        maybe_placeholders=False,
    )
