"""Writes reports where they were asked for: standard output, or files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TextIO

from spillscan import reports
from spillscan.errors import UsageError
from spillscan.output.files import Draft, Target
from spillscan.places import Tree
from spillscan.reports import Kind, Report, Style

BATCH_PIECES = 64
"""Pieces written at once: small enough that their text needs no memory map of its own."""
PLAIN_WIDTH = 120
"""Columns where no terminal says how many there are."""


@dataclass(frozen=True, slots=True)
class Form:
    """One ``-f FORMAT[:FILE]``."""

    name: str
    """The format."""
    target: Target | None
    """The file; ``None`` is standard output."""


def write(report: Report, wanted: Sequence[str], rows: int | None) -> None:
    """Write ``report`` in each of the ``wanted`` forms ``FORMAT[:FILE]``; without any, as text to standard output.

    Files are complete and in their places before standard output begins. Raises
    :class:`~spillscan.errors.UsageError` where a file cannot be written; then none of them is.
    """
    forms = check_forms(wanted, report.kind)
    report = replace(report, tree=_tree())
    put(forms, lambda form: _pieces(report, form, rows))


def put(forms: Sequence[Form], pieces: Callable[[Form], Iterable[str]]) -> None:
    """Write the ``pieces`` of each form where it was asked for: all files first, then standard output."""
    drafts: list[Draft] = []
    try:
        for form in forms:
            if form.target is not None:
                draft = form.target.draft()
                drafts.append(draft)
                draft.fill(lambda file, form=form: _copy(pieces(form), file))  # type: ignore[misc]
        for draft in drafts:
            draft.commit()
    finally:
        for draft in drafts:
            draft.discard()
    for form in forms:
        if form.target is None:
            if hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(encoding="utf-8", errors="replace")
            _copy(pieces(form), sys.stdout)


def check_forms(wanted: Sequence[str], kind: Kind) -> list[Form]:
    """The forms asked for. Refuses a wrong ``-f`` before any work is done."""
    forms = parse_forms(wanted, reports.names())
    for form in forms:
        if kind not in reports.of_name(form.name).KINDS:
            able = ", ".join(other for other, module in reports.all_formats().items() if kind in module.KINDS)
            raise UsageError(f"{form.name} cannot show a {kind}", f"choose from {able}")
    return forms


def parse_forms(wanted: Sequence[str], names: Sequence[str]) -> list[Form]:
    """The forms asked for, of a command that knows the formats ``names``; without any, text."""
    forms = [_form(text, names) for text in wanted or ("text",)]
    if sum(form.target is None for form in forms) > 1:
        raise UsageError("two formats for standard output", "give all but one a file: -f json:build.json")
    places = [os.path.realpath(form.target.path) for form in forms if form.target is not None]
    for form in forms:
        if form.target is not None and places.count(os.path.realpath(form.target.path)) > 1:
            raise UsageError(f"two formats for {form.target.path}", "give each a file of its own")
    return forms


def _form(text: str, names: Sequence[str]) -> Form:
    name, colon, path = text.partition(":")
    if name not in names:
        raise UsageError(f"there is no format {name!r}", f"choose from {', '.join(names)}")
    if not colon:
        return Form(name, None)
    target = Target.parse(path)
    if target is None:
        raise UsageError(f"{text!r} names no file", f"write {name}:FILE, or {name} for standard output")
    target.check()
    return Form(name, target)


def _pieces(report: Report, form: Form, rows: int | None) -> Iterable[str]:
    return reports.of_name(form.name).render(report, style_of(rows, form.target is None))


def style_of(rows: int | None, to_terminal: bool = True) -> Style:
    """How whoever reads standard output wants it; a file wants it plain."""
    stream = sys.stdout
    terminal = to_terminal and stream.isatty()
    forced = os.environ.get("FORCE_COLOR", "") not in ("", "0") and to_terminal
    color = not os.environ.get("NO_COLOR") and (forced or (terminal and os.environ.get("TERM") != "dumb"))
    width = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns if terminal or "COLUMNS" in os.environ else PLAIN_WIDTH
    return Style(width=max(60, width), color=color, rows=rows)


def _tree() -> Tree:
    """The repository around the current folder: the CI service's checkout where it holds it, else git's, else the
    folder itself."""
    here = os.path.realpath(os.getcwd())
    checkouts = (os.environ.get(name) for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"))
    roots = [os.path.realpath(folder) for folder in checkouts if folder]
    above = here
    while os.path.dirname(above) != above:
        if os.path.exists(os.path.join(above, ".git")):
            roots.append(above)
            break
        above = os.path.dirname(above)
    root = next((root for root in roots if os.path.commonpath([root, here]) == root), here)
    folder = os.path.relpath(here, root)
    return Tree(
        root=root.replace(os.sep, "/"),
        folder="" if folder == os.curdir else folder.replace(os.sep, "/"),
        holds=_is_file_below(root),
    )


def _is_file_below(root: str) -> Callable[[str], bool]:
    @cache
    def holds(path: str) -> bool:
        return os.path.isfile(os.path.join(root, path))

    return holds


def _copy(pieces: Iterable[str], file: TextIO) -> None:
    batch: list[str] = []
    for piece in pieces:
        batch.append(piece)
        if len(batch) >= BATCH_PIECES:
            file.write("".join(batch))
            batch.clear()
    file.write("".join(batch))
