"""Places of kernels and findings in a repository: in the source if it is known, else in the log.

Pure: data from the file system and the environment is in the :class:`Tree`.

If no line of a kernel is known, its definition is found by name: the line of the name after ``__global__``. This parses
declarations, not C++: macros are not expanded, conditions not evaluated, and names that a macro pastes from parts not
found. Such a place is marked as found by name, and if several definitions match a kernel, none is used.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model import Finding, Kernel, Origin
from spillscan.model.symbols import Function, demangle
from spillscan.output.safe import printable

if TYPE_CHECKING:
    from spillscan.model.local import AccessClass, LocalTraffic, SourceLine

_SOURCE = re.compile(r"\.(?:cu|cuh|cpp|cc|cxx|c|h|hpp|inl|ptx)$")
# CMake names objects after their sources: src/CMakeFiles/gemm.dir/kernels/a.cu.o; `__` stands for `..`.
_CMAKE_OBJECT = re.compile(r"(?:(?P<folder>.*)/)?CMakeFiles/[^/]+\.dir/(?P<source>.+)\.(?:o|obj)$")
# Intermediate files of compilers, of no use to readers.
_TEMPORARY = re.compile(r"(?:^|/)(?:tmpxft_|tmp/|te?mp[^/]*/|AppData/Local/Temp/)")
_ADVISORY_PLACE = re.compile(r"(?P<path>.+), line (?P<line>\d+)$")
_ABOUT: dict[str, AccessClass] = {"spill": "spill", "local-array": "array"}
"""Prefixes of rules about local-memory accesses, and the class of these accesses."""
_DRIVE = re.compile(r"[A-Za-z]:(?:/|$)")
_DEEPEST, _LONGEST_UNIT = 64, 1024

UNKNOWN = "unknown"
"""Path of an unknown place."""


# ---- definitions of kernels -----------------------------------------------------------------------------------------

MARK = "__global__"
_HIDDEN = re.compile(
    r"//(?:[^\n\\]|\\.)*|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*\"?|(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)*'?", re.DOTALL
)
"""Comments and literals; an unterminated one extends to the end of the line, or of the file."""
_NAME = re.compile(r"\s*(\w+)\s*(#?)")
"""Reversed text before parameters: the name, and whether a macro pastes it from parts."""
_ATTRIBUTES = frozenset(("__launch_bounds__", "__maxnreg__", "__cluster_dims__", "__block_size__", "__attribute__"))
_ATTRIBUTES |= {"alignas", "decltype", "__declspec", "typeof", MARK}
_SIGN = re.compile("[(){};]")
_LONGEST_HEAD = 4096
"""Most characters between ``__global__`` and the end of the parameters."""


class Definition(NamedTuple):
    """Definition of a kernel in a source file."""

    path: str
    """Path relative to the repository's root, with forward slashes."""
    line: int
    """1-based line of the name."""


class Definitions:
    """Definitions in the source files of a repository.
    ``paths`` gives the files that may contain some, ``read`` the text of a file. No file is read before a kernel is
    looked up, and files other than the kernel's own only if that does not help.
    """

    def __init__(self, paths: Callable[[], Iterable[str]] = tuple, read: Callable[[str], str] = str) -> None:
        self._paths = paths
        self._read = cache(lambda path: [*definitions(path, read(path))])

    def of(self, name: str, source: str = "") -> Definition | None:
        """Definition of the kernel with a demangled ``name``; ``None`` if there is none, or several match.

        ``source``: file that the kernel was compiled from, whose definitions come first.
        """
        wanted = Function(name).base
        matching = [each for base, each in self._read(source) if base == wanted] if source else []
        matching = matching or self._named.get(wanted, [])
        return matching[0] if len(matching) == 1 else None

    @cached_property
    def _named(self) -> Mapping[str, list[Definition]]:
        by_name: dict[str, list[Definition]] = {}
        for path in self._paths():
            for name, each in self._read(path):
                by_name.setdefault(name, []).append(each)
        return by_name


def definitions(path: str, text: str) -> Iterable[tuple[str, Definition]]:
    """(name, definition) of each kernel that a source file defines."""
    if MARK not in text:
        return
    plain = _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    line, counted = 1, 0
    at = plain.find(MARK)
    while at >= 0:
        following = plain.find(MARK, at + len(MARK))
        end = following if following >= 0 else len(plain)
        if named := _declarator(plain, at, end):
            name, place = named
            line, counted = line + plain.count("\n", counted, place), place
            yield name, Definition(path, line)
        at = following


def _declarator(text: str, begin: int, end: int) -> tuple[str, int] | None:
    """(name, its offset) of a definition at ``begin``, or ``None``."""
    depth, opened = 0, -1
    name: tuple[str, int] | None = None
    for sign in _SIGN.finditer(text, begin, min(end, begin + _LONGEST_HEAD)):
        if sign[0] == "(":
            opened = opened if depth else sign.start()
            depth += 1
        elif sign[0] == ")":
            depth -= 1
            named = None if depth else _NAME.match(text[begin:opened][::-1])
            if named and named[1][::-1] not in _ATTRIBUTES:
                name = ("" if named[2] else named[1][::-1]), opened - named.end(1)
        elif not depth:
            return name if name and name[0] and sign[0] == "{" else None
    return None


# ---- places ---------------------------------------------------------------------------------------------------------


class Tree(Struct, frozen=True, kw_only=True):
    """Repository that reports refer to."""

    root: str = ""
    """Absolute path of its root, with forward slashes; empty if there is none."""
    folder: str = ""
    """Current folder, relative to the root; empty at the root."""
    has_file: Callable[[str], bool] = lambda path: False
    """Whether a path relative to the root is a file."""
    definitions: Definitions = Definitions()
    """Definitions of kernels in its sources."""
    web: str = ""
    """URL prefix of a file's path on the CI service; empty if there is none."""
    run: str = ""
    """URL of the CI service's run; empty if there is none."""

    def relative(self, path: str) -> str:
        """``path`` relative to the root, with forward slashes, never above the root.
        A path of another machine is replaced by its longest tail that is a file here. If there is none, an absolute
        path is left unchanged.
        """
        inside = self.inside(path)
        if inside is not None and (self.has_file(inside) or _is_absolute(path)):
            return inside
        parts = [part for part in _normal(path).split("/") if part not in ("", ".", "..") and not _DRIVE.match(part)]
        parts = parts[-_DEEPEST:]
        tails = ("/".join(parts[start:]) for start in range(len(parts)))
        elsewhere = _normal(path) if parts and _is_absolute(_normal(path)) else "/".join(parts)
        return next(filter(self.has_file, tails), inside or elsewhere or UNKNOWN)

    def inside(self, path: str) -> str | None:
        """``path`` relative to the root, on this machine; ``None`` if it is outside."""
        path, root = _normal(path), _normal(self.root)
        if not _is_absolute(path):
            path = posixpath.normpath(posixpath.join(self.folder, path))
            return None if path.startswith("../") or path in ("..", ".") else path
        return path[len(root) + 1 :] if self.root and path.startswith(root + "/") else None

    def link(self, place: Place) -> str:
        """URL of ``place`` on the CI service; empty if there is none."""
        line = "" if place.line is None else f"#L{place.line}"
        return f"{self.web}{place.uri}{line}" if self.web and self.has_file(place.path) else ""


class Place(Struct, frozen=True, kw_only=True):
    """A file, and its line if known."""

    path: str
    """Relative to the repository's root, or absolute if outside; forward slashes, printable."""
    line: int | None
    """1-based; ``None`` if only the file is known."""
    inner: str = ""
    """For inlined code, its own source line: ``softmax.h:118``."""
    share: float | None = None
    """Share of the spill cost of the spills or arrays in question; ``None`` if not computed."""
    by_name: bool = False
    """Whether the line is that of a kernel definition with this name, for lack of other information."""

    @property
    def uri(self) -> str:
        """The path as a URI reference (RFC 3986): relative, or a ``file:`` URI if it is absolute."""
        from urllib.parse import quote

        path = quote(self.path, safe="/:" if self.is_absolute else "/", errors="replace")
        return f"file:///{path.lstrip('/')}" if self.is_absolute else path

    @property
    def is_absolute(self) -> bool:
        """Whether it is outside the repository."""
        return _is_absolute(self.path)

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"

    @property
    def text(self) -> str:
        """``src/gemm.cu:50 (inlined: softmax.h:118)``, ``src/gemm.cu:50 (kernel definition, found by name)``."""
        return f"{self}{f' (inlined: {self.inner})' if self.inner else BY_NAME if self.by_name else ''}"


BY_NAME = " (kernel definition, found by name)"


def place_of(finding: Finding, tree: Tree) -> Place:
    """Place of ``finding``: in the source if known, else the line of the log."""
    return source_place(finding, tree) or place_in_input(finding.origin, tree)


def source_place(finding: Finding, tree: Tree) -> Place | None:
    """Place of ``finding`` in the source; ``None`` if unknown.

    In order of preference: the line that the machine code names, the line in the compiler's message, the kernel's
    definition by its name, the source that the build step or lines of the machine code name.
    """
    kernel = finding.kernel
    if line := _line_in_code(finding, tree) or _line_in_message(finding, tree):
        return line
    source = source_of(kernel) or _file_in_code(kernel)
    path = tree.relative(source) if source else ""
    if defined := tree.definitions.of(demangle(kernel.key.symbol), path):
        return replace(_place(defined.path, defined.line), by_name=True)
    return _place(path, None) if path else None


def _file_in_code(kernel: Kernel) -> str:
    """File of the kernel itself, if its code has lines: that of the outermost call of inlined code."""
    line = next((each.source for each in kernel.sass.local.own.lines), None) if kernel.sass else None
    while line is not None and line.inlined_at is not None:
        line = line.inlined_at
    return "" if line is None else line.file


def place_in_input(origin: Origin | None, tree: Tree) -> Place:
    """Line of the input."""
    return _place(UNKNOWN, None) if origin is None else _place(log_path(origin.input, tree), origin.line)


def log_path(log: str, tree: Tree) -> str:
    """Name of an input in reports: relative to the root, or absolute if it is outside."""
    if log == "-":
        return "standard-input"
    path = tree.inside(log) or _normal(log)
    if path.startswith("../"):  # made absolute, or without a root cut to its name: no report leads upwards
        outside = posixpath.normpath(posixpath.join(_normal(tree.root), tree.folder, path))
        return outside if _is_absolute(outside) else posixpath.basename(path)
    return path


def source_of(kernel: Kernel) -> str:
    """Source file that ``kernel`` was compiled from, as named by the build; empty if unknown."""
    if kernel.source:
        return kernel.source
    unit = kernel.key.unit.replace("\\", "/")
    if _SOURCE.search(unit):
        return unit
    made = _CMAKE_OBJECT.match(unit) if len(unit) <= _LONGEST_UNIT else None
    if made and _SOURCE.search(made["source"]):
        return posixpath.join(made["folder"] or "", made["source"].replace("__/", "../"))
    return ""


def _normal(path: str) -> str:
    path = posixpath.normpath(path.replace("\\", "/"))
    return path[1:] if path.startswith("//") else path


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "\\")) or _DRIVE.match(path.replace("\\", "/")) is not None


def _place(path: str, line: int | None) -> Place:
    return Place(path=printable(path) or UNKNOWN, line=line or None)


def _line_in_message(finding: Finding, tree: Tree) -> Place | None:
    """Line in the compiler's message behind a finding, unless the file is a temporary one."""
    from spillscan.judging.rules.messages import PTXAS, WARNINGS  # a scan has no findings

    kinds = WARNINGS if finding.rule == PTXAS.id else (finding.rule.replace("-", "_"),)
    for advisory in finding.kernel.advisories:
        match = _ADVISORY_PLACE.match(advisory.location or "") if advisory.kind in kinds else None
        if match and not _TEMPORARY.search(match["path"].replace("\\", "/")):
            return _place(tree.relative(match["path"]), int(match["line"]))
    return None


def _line_in_code(finding: Finding, tree: Tree) -> Place | None:
    """Source line of the finding; for spills and arrays, the costliest."""
    from spillscan.judging.rules.registers import GROWTH, REGISTERS

    if finding.kernel.sass is not None and finding.rule in (REGISTERS.id, GROWTH.id):
        peak = finding.kernel.sass.live_peak
        return placed(peak.source, tree) if peak and peak.source else None
    return next(iter(costliest(finding, tree)), None)


def costliest(finding: Finding, tree: Tree) -> Sequence[Place]:
    """Source lines of the spills or arrays of a finding, the costliest first.

    Those of callees count only if the message includes them. For inlined code, the innermost line that is in the
    repository. Empty for findings about neither, and without lines.
    """
    kind = next((kind for name, kind in _ABOUT.items() if finding.rule.startswith(name)), None)
    sass = finding.kernel.sass
    if kind is None or sass is None:
        return ()
    return by_cost(sass.local if "callees" in finding.message else sass.local.own, kind, tree)


def by_cost(local: LocalTraffic, kind: AccessClass, tree: Tree) -> list[Place]:
    """Source lines of accesses of one class: see :func:`costliest`."""
    from spillscan.reading.machine.spillmap import culprits  # not loaded if only logs are read

    lines = culprits(local, kind, lambda line: _in_repository(line, tree))
    return [_placed(each.place, each.inner, tree, each.share) for each in lines]


def placed(line: SourceLine, tree: Tree) -> Place:
    """Place of a line, or of the innermost call it was inlined through that is in the repository."""
    return _placed(_in_repository(line, tree), line, tree)


def _placed(line: SourceLine, inner: SourceLine, tree: Tree, share: float | None = None) -> Place:
    apart = (inner.file, inner.line) != (line.file, line.line)
    inside = printable(f"{posixpath.basename(_normal(inner.file))}:{inner.line}") if apart else ""
    return replace(_place(_relative(tree, line.file), line.line), inner=inside, share=share)


def _in_repository(line: SourceLine, tree: Tree) -> SourceLine:
    """The line, or the innermost call it was inlined through that is in the repository; else the outermost call.

    Users cannot fix the header of a library.
    """
    each: SourceLine | None = line
    while each is not None:
        if tree.has_file(_relative(tree, each.file)):
            return each
        line, each = each, each.inlined_at
    return line


@lru_cache(maxsize=4096)
def _relative(tree: Tree, path: str) -> str:
    """Cached :meth:`Tree.relative`: thousands of accesses come from few files."""
    return tree.relative(path)
