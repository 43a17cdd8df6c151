"""Writes reports where they were asked for: standard output, or files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from spillscan import reports
from spillscan.errors import UsageError
from spillscan.output.files import Form, parse_forms, put
from spillscan.output.terminal import style_of
from spillscan.places import Tree
from spillscan.reports import Kind, Report


def write(report: Report, wanted: Sequence[str], rows: int | None) -> None:
    """Write ``report`` in each of the ``wanted`` forms ``FORMAT[:FILE]``; without any, as text to standard output.

    Files are complete and in their places before standard output begins. Raises
    :class:`~spillscan.errors.UsageError` where a file cannot be written; then none of them is.
    """
    forms = check_forms(wanted, report.kind)
    report = replace(report, tree=tree_here())
    put(forms, lambda form: _pieces(report, form, rows))


def check_forms(wanted: Sequence[str], kind: Kind) -> list[Form]:
    """The forms asked for. Refuses a wrong ``-f`` before any work is done."""
    forms = parse_forms(wanted, reports.names())
    for form in forms:
        if kind not in reports.of_name(form.name).KINDS:
            able = ", ".join(other for other, module in reports.all_formats().items() if kind in module.KINDS)
            raise UsageError(f"{form.name} cannot show a {kind}", f"choose from {able}")
    return forms


def _pieces(report: Report, form: Form, rows: int | None) -> Iterable[str]:
    return reports.of_name(form.name).render(report, style_of(rows, form.target is None))


def tree_here() -> Tree:
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
