"""Write reports to standard output or to files, which are written completely or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from spillscan.judging.places import MARK, Definitions, Tree
from spillscan.model.build import damage
from spillscan.output.errors import UsageError
from spillscan.output.files import Form, parse_forms, put
from spillscan.output.terminal import style_of
from spillscan.reports import formats
from spillscan.reports.report import EXPLAINED, Kind, Report

if TYPE_CHECKING:
    from spillscan.model import Kernel
    from spillscan.model.code import CodeText
    from spillscan.reading.binary.pressure import Pressure

SHOWN_CODE = 60
"""Kernels whose code a page shows."""
_DETAILED = frozenset({"html", "markdown"})
_LARGEST_SOURCE = 4 << 20
_WIDE = 120
"""Columns that names are shortened to in formats other than text."""


def write(
    report: Report,
    wanted: Sequence[str],
    rows: int | None,
    source_root: str | None = None,
) -> None:
    """Write ``report`` in each form ``FORMAT[:FILE]`` of ``wanted``; without any, as text to standard output.

    ``source_root``: folder in which source files may be read. Files are complete and in place before standard output
    begins. Raises :class:`~spillscan.UsageError` if a file cannot be written; then none of them is.
    """
    forms = check_forms(wanted, report.kind)
    report = report.extended(tree_here())
    code, texts = _code(report, {form.name for form in forms} & _DETAILED)
    report = report.extended(code=code, texts=texts)
    if source_root is not None:
        kernels = (kernel for kernel in report.build.kernels if id(kernel) in code)
        report = report.extended(sources=sources_of((code[id(kernel)] for kernel in kernels), source_root))

    def rendered(form: Form) -> Iterator[str] | Iterator[bytes]:
        style = style_of(rows, form.target is None)
        report.names.fit(style.width if form.name == "text" else _WIDE)
        return formats.of_name(form.name).render(report, style)

    put(forms, rendered)


def check_forms(wanted: Sequence[str], kind: Kind) -> list[Form]:
    """Parse the forms asked for; raise UsageError for a wrong ``-f`` before any work is done."""
    if {text.partition(":")[0] for text in wanted} <= {*formats.names()}:
        forms = parse_forms(wanted, formats.names())
    else:  # refused, with a hint to one of those that can
        forms = parse_forms(wanted, _able(kind))
    for form in forms:
        if kind not in formats.of_name(form.name).KINDS:
            raise UsageError(f"`{kind}` has no output format {form.name}", f"choose from {', '.join(_able(kind))}")
    return forms


def shows_gaps(forms: Sequence[Form]) -> bool:
    """Whether a form prints gaps as text to standard output."""
    return any(form.name == "text" and form.target is None for form in forms)


def _able(kind: Kind) -> list[str]:
    return [name for name, module in formats.all_formats().items() if kind in module.KINDS]


def _code(report: Report, detailed: Collection[str]) -> tuple[dict[int, Pressure], dict[int, CodeText]]:
    """Live registers and code of kernels shown in detail: those that spill, and both sides of those that grew."""
    wanted: list[Kernel | None] = []
    if "html" in detailed:
        failing = {id(each.kernel) for each in report.findings}
        spilling = (each for each in report.build.kernels if sum(each.spills or ()) or id(each) in failing)
        wanted += [*(each.worst for each in report.first), *sorted(spilling, key=damage)[:SHOWN_CODE]]
    if detailed and report.kind == "diff":
        wanted += [side for change in report.grown[:EXPLAINED] for side in (change.before, change.after)]
    kernels = {id(each): each for each in wanted if each is not None}.values()
    if not any(each.sass and each.sass.digest for each in kernels):
        return {}, {}
    from spillscan.reading.binary.fetch import pressures_of, texts_of

    return pressures_of(kernels), texts_of(kernels)


def sources_of(shown: Iterable[Pressure], root: str) -> dict[str, list[str]]:
    """Source files below ``root`` that contain lines of the shown code.

    Nothing outside ``root`` is ever read, whatever a binary's debug information names.
    """
    from spillscan.reports.page.code import files_of

    if not os.path.isdir(root):
        raise UsageError(f"--source-root: {root} is not a folder", "pass the folder of the sources")
    top = os.path.realpath(root)
    tree = Tree(root=top.replace(os.sep, "/"), has_file=_is_file_below(top))
    lines: dict[str, list[str]] = {}
    for name in {name for pressure in shown for name in files_of(pressure)}:
        path = os.path.realpath(os.path.join(top, tree.relative(name)))
        try:
            if os.path.commonpath([path, top]) == top and os.path.getsize(path) <= _LARGEST_SOURCE:
                with open(path, encoding="utf-8", errors="replace") as file:
                    lines[name] = file.read().splitlines()
        except (OSError, ValueError):
            continue
    return lines


def tree_here() -> Tree:
    """Repository around the current folder: the CI checkout if it contains the folder, else git's, else the folder."""
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
    web, run = addresses(os.environ)
    return Tree(
        root=root.replace(os.sep, "/"),
        folder="" if folder == os.curdir else folder.replace(os.sep, "/"),
        has_file=_is_file_below(root),
        definitions=Definitions(partial(_sources_below, root), partial(_source, root)) if roots else Definitions(),
        web=web,
        run=run,
    )


_SOURCES = (".cu", ".cuh", ".h", ".hpp", ".hxx", ".inl", ".inc", ".cpp", ".cc", ".cxx")
_MOST_FILES, _MOST_ENTRIES = 4_000, 100_000
"""Source files searched for definitions, and files walked to find them."""


def _sources_below(root: str) -> Iterator[str]:
    """Source files below ``root`` that may define kernels, except those in hidden folders."""
    left, files = _MOST_ENTRIES, 0
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        left -= len(names)
        for name in sorted(names):
            if not name.endswith(_SOURCES):
                continue
            files += 1
            if left < 0 or files > _MOST_FILES:
                return
            yield os.path.relpath(os.path.join(place, name), root).replace(os.sep, "/")


def _source(root: str, path: str) -> str:
    """Text of a source file; empty if it defines no kernel or cannot be read."""
    try:
        with open(os.path.join(root, path), "rb") as file:
            data = file.read(_LARGEST_SOURCE)
    except (OSError, ValueError):
        return ""
    return data.decode("utf-8", "replace") if MARK.encode() in data else ""


def _is_file_below(root: str) -> Callable[[str], bool]:
    @cache
    def holds(path: str) -> bool:
        return not os.path.isabs(path) and os.path.isfile(os.path.join(root, path))

    return holds


_PLAIN = re.compile(r"https?://[\w.:/~%+-]+")


def addresses(environment: Mapping[str, str]) -> tuple[str, str]:
    """(URL prefix of a file's path, URL of this run) by the job variables of GitHub or GitLab; empty elsewhere."""
    get = environment.get
    if repository := get("GITHUB_REPOSITORY"):
        top = f"{get('GITHUB_SERVER_URL')}/{repository}"
        files, run = f"{top}/blob/{get('GITHUB_SHA')}/", f"{top}/actions/runs/{get('GITHUB_RUN_ID')}"
    else:
        files, run = f"{get('CI_PROJECT_URL')}/-/blob/{get('CI_COMMIT_SHA')}/", get("CI_JOB_URL", "")
    return (files if _PLAIN.fullmatch(files) else ""), (run if _PLAIN.fullmatch(run) else "")
