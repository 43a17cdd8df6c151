"""Parse a compiler's command line: its object and sources, and whether the code is relocatable."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

SOURCES = (".cu", ".ptx", ".cubin", ".cpp", ".cc", ".cxx", ".c")
"""Suffixes of files that a CUDA compiler or linker reads."""

OBJECTS = (".o", ".obj", ".cubin", ".fatbin")
"""Suffixes of files that compilers write."""
HOST_SOURCES = (".cpp", ".cc", ".cxx", ".c")
"""Suffixes of sources without device code, unless an option says otherwise."""

_TOOL = re.compile(r"(nvcc|clang|ptxas|nvlink)(?:\+\+)?(?:-\d+)?(?:\.exe)?$")
_REPORT = re.compile(
    r"(?:-Xptxas|-Xcuda-ptxas|--ptxas-options|\bptxas\b)[= ,](?:\S*,)?(?:-v|--verbose)\b|--?res(?:ource)?-usage\b"
)
_NO_MACHINE_CODE = re.compile(
    r"--?(?:ptx|cuda|optix-ir|preprocess|dryrun|dlto|version|help|device-link|dlink|lib)"
    r"|-E|-M{1,2}|--generate-(?:nonsystem-)?dependencies|-fsyntax-only|-emit-llvm|-cc1|-S|-V|-h"
)
"""Options with which a compiler makes no machine code, or only links; with ``-MD`` and similar options it still
does."""
_QUOTED = re.compile(r"""'([^']*+)'|"((?>(?:[^"\\]++|\\.)*))"|\\(.)""", re.S)
_WORDS = re.compile(rf"""(?>(?:[^ \t\r\n"'\\]++|{_QUOTED.pattern})+)|["'\\]""", re.S)
"""Words as a shell splits them; a lone quote or backslash is an unclosed one."""
_UNQUOTED = re.compile(r"[^ \t\r\n]+")
_ESCAPED, _OPEN = re.compile(r"\\([\\\"])"), frozenset("\"'\\")
_LTO, _REAL = re.compile(r"\blto_\d"), re.compile(r"\bsm_\d")
_OUTPUT_OPTIONS = ("-o", "--output-file", "-MF", "-MT", "--dependency-output")
_COMPILES = ("-c", "--compile", "-dc", "--device-c", "-cubin", "--cubin", "-fatbin", "--fatbin", "-ptx")


class Compilation(NamedTuple):
    """One call of a compiler or linker of device code."""

    tool: str
    """``nvcc``, ``clang``, ``ptxas`` or ``nvlink``."""
    tool_index: int
    """Index of the tool in the words, after launchers such as ccache."""
    output: str = ""
    """Output file; empty if not specified."""
    source: str = ""
    """First source."""
    paths: tuple[str, ...] = ()
    """All sources, in order."""
    relocatable: bool = False
    """Whether it requests relocatable device code (``-dc``, ``-rdc=true``)."""
    compiles: bool = False
    """Whether it stops after the compilation (``-c``, ``-dc``, ``-cubin``, ``-fatbin``, ``-ptx``)."""

    @property
    def sources(self) -> int:
        """Number of sources."""
        return len(self.paths)

    @property
    def object(self) -> str:
        """The file that it writes: as specified, or the tool's default; empty if there is no single one."""
        if self.output or not self.sources:
            return self.output
        if not self.compiles:
            return "a.out"
        return "" if self.sources > 1 else default_object(self.source)


_CHECK = re.compile(
    r"CMakeFiles/(?:[\d.]+/(?:CompilerId|CMakeDetermineCompilerABI)|CMakeScratch|CMakeTmp"
    r"|CMake(?:Error|Output)\.log$|CMakeConfigureLog\.yaml$)"
    r"|(?:^|/)(?:meson-private/|meson-logs/|conftest\.(?:cu|o|obj)$|config\.log$)"
)


def is_check(path: str) -> bool:
    """Whether ``path`` belongs to a compiler check of CMake, Meson or a configure script, or to its log.

    Some checks are meant to fail.
    """
    return _CHECK.search(path.replace("\\", "/")) is not None


def default_object(source: str) -> str:
    """Default name of the object for ``source``."""
    return posixpath.splitext(posixpath.basename(source))[0] + ".o"


def parse(words: Sequence[str]) -> Compilation | None:
    """The compilation that the command ``words`` does; ``None`` if it calls no compiler or linker of device code."""
    found = ((index, _TOOL.search(word)) for index, word in enumerate(words) if not word.startswith("-"))
    tool_index, tool = next((each for each in found if each[1]), (-1, None))
    if tool is None:
        return None
    words = list(words[tool_index + 1 :])
    if "&&" in words:
        words = words[: words.index("&&")]
    output = ""
    paths: list[str] = []
    relocatable = compiles = False
    previous = ""
    for word, following in pairwise([*words, ""]):
        if not word.startswith("-"):
            if word.endswith(SOURCES) and previous not in _OUTPUT_OPTIONS:
                paths.append(word)
            previous = word
            continue
        if word in ("-o", "--output-file"):
            output = following
        elif word.startswith("--output-file=") or (
            word.startswith("-o") and len(word) > 2 and not word.startswith("-op")
        ):
            output = word.partition("=")[2] or word[2:]
        relocatable |= word in ("-dc", "--device-c", "-rdc=true", "--relocatable-device-code=true")
        relocatable |= word in ("-rdc", "--relocatable-device-code") and following == "true"
        compiles |= word in _COMPILES
        previous = word
    return Compilation(
        tool=tool[1],
        tool_index=tool_index,
        output=output,
        source=paths[0] if paths else "",
        paths=tuple(paths),
        relocatable=relocatable,
        compiles=compiles,
    )


_OF_PLACES = re.compile(r"-(?:I|isystem|iquote|L|o|M[DFTPQ])|--?(?:include-path|output-|dependency-|gencode|arch|code)")
"""Options for file locations and targets."""


def options(words: Sequence[str]) -> tuple[str, list[str]]:
    """The tool of the command ``words``, and its options without files, folders and targets."""
    found = parse(words)
    if found is None:
        return "", []
    kept: list[str] = []
    for previous, word in pairwise(["", *words[found.tool_index + 1 :]]):
        valued = _OF_PLACES.match(previous) and not word.startswith("-")
        if not (valued or _OF_PLACES.match(word) or word in (*found.paths, found.output)):
            kept.append(word)
    return found.tool, kept


def makes_machine_code(words: Sequence[str]) -> bool:
    """Whether the command ``words`` compiles device code to machine code, judging by its options."""
    asked = (word for word in words if word.startswith("-"))
    if not holds_device_code(words) or any(map(_NO_MACHINE_CODE.fullmatch, asked)):
        return False
    line = " ".join(words)
    return not _LTO.search(line) or _REAL.search(line) is not None


def split(text: str, *, whole: bool = False) -> list[str]:
    """Split a command line into words as a shell does; at blanks if a quote is not closed.

    With ``whole``, raises :class:`ValueError` instead if a quote is not closed.
    """
    if _OPEN.isdisjoint(text):
        return _UNQUOTED.findall(text)
    words = [match[0] for match in _WORDS.finditer(text)]
    if not _OPEN.isdisjoint(words):
        if whole:
            raise ValueError("unclosed quote")
        return text.split()
    return [_QUOTED.sub(_bare, word) for word in words]


def _bare(quoted: re.Match[str]) -> str:
    plain, escaped, character = quoted.groups()
    return _ESCAPED.sub(r"\1", escaped) if escaped is not None else plain if plain is not None else character


def holds_device_code(words: Sequence[str]) -> bool | None:
    """Whether a source in the command ``words`` may contain device code; ``None`` if there is no source."""
    sources = [word for word in words if word.endswith(SOURCES) and not word.startswith("-")]
    if not sources:
        return None
    asked = not {"-xcu", "-xcuda", "-x=cu", "--x=cu"}.isdisjoint(words)
    if not {"-x", "--x"}.isdisjoint(words):
        asked |= any(word in ("-x", "--x") and following in ("cu", "cuda") for word, following in pairwise(words))
    return asked or not all(word.endswith(HOST_SOURCES) for word in sources)


def asks_for_report(command: str) -> bool:
    """Whether ``command`` makes ptxas report resource usage."""
    return _REPORT.search(command) is not None
