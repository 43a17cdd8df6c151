"""What objects of a dataset are called. Labels and archs may be any text: only harmless characters reach a path."""

from __future__ import annotations

from urllib.parse import quote

from spillscan.dataset.unit import digest
from spillscan.errors import UsageError
from spillscan.output.safe import clip, printable

KERNELS, UNITS, ISSUES, COMMITS = "kernels", "units", "issues", "commits"

NULL = "__HIVE_DEFAULT_PARTITION__"
"""How Hive's folders, and all who read them, spell a value that is not known."""

_LONGEST = 200
"""Characters of one step of a path; file systems take 255."""


def check_label(label: str) -> None:
    """Refuse what no folder can be called by and no reader could tell apart."""
    shown = clip(printable(label), 60)
    if not label or label == NULL:
        raise UsageError(f"{shown!r} is no label", "call the build by a commit, a tag or a date")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the label {shown} is no text", "call the build by a commit, a tag or a date") from None
    if len(_escaped(label)) > _LONGEST:
        raise UsageError(f"the label {shown} is too long", f"at most {_LONGEST} letters and digits")


def folder(table: str, label: str, *arch: str | None) -> str:
    """``kernels/label=v1/arch=sm_80``: Hive's way to write columns as folders."""
    path = f"{table}/label={_escaped(label)}"
    return "/".join((path, *(f"arch={_arch(each)}" for each in arch)))


def _arch(arch: str | None) -> str:
    if arch is None:
        return NULL
    escaped = _escaped(arch)
    if escaped == NULL:
        return f"%5F{NULL[1:]}"
    return escaped if len(escaped) <= _LONGEST else f"{escaped[:60].rstrip('%')}-{digest(arch)}"


def _escaped(text: str) -> str:
    return quote(text, safe="", errors="backslashreplace").replace("~", "%7E")
