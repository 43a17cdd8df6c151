"""Command lines of compilers and linkers of device code: their sources, output and options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

HOST_SOURCES = (".cpp", ".cc", ".cxx", ".c")
"""Suffixes of sources without device code, unless an option says otherwise."""
SOURCES = (".cu", ".ptx", ".cubin", *HOST_SOURCES)
"""Suffixes of files that a CUDA compiler or linker reads."""

_TOOL = re.compile(r"(nvcc|clang|ptxas|nvlink)(?:\+\+)?(?:-\d+)?(?:\.exe)?$")
_REPORT = re.compile(
    r"(?:-Xptxas|-Xcuda-ptxas|--ptxas-options|\bptxas\b)[= ,](?:\S*,)?(?:-v|--verbose)\b|--?res(?:ource)?-usage\b"
)
_NO_MACHINE_CODE = re.compile(
    r"--?(?:ptx|cuda|optix-ir|preprocess|dryrun|dlto|version|help|device-link|dlink|lib)"
    r"|-E|-M{1,2}|--generate-(?:nonsystem-)?dependencies|-fsyntax-only|-emit-llvm|-cc1|-S|-V|-h"
)
"""Options with which a compiler produces no machine code, or only links; with ``-MD`` and similar options it still
does."""
_LTO, _REAL = re.compile(r"\blto_\d"), re.compile(r"\bsm_\d")
_OUTPUT = re.compile(r"--output-file=(.+)|-o(?!dir|pt)=?(.+)")
_OUTPUT_OPTIONS, _OF_DEPENDENCIES = ("-o", "--output-file"), ("-MF", "-MT", "-MQ", "--dependency-output")
_COMPILES = frozenset(("-c", "--compile", "-dc", "--device-c", "-cubin", "--cubin", "-fatbin", "--fatbin", "-ptx"))
_RELOCATABLE = re.compile(r" (?:-dc|--device-c|(?:-rdc|--relocatable-device-code)[= ]true)(?= |$)")
_AS_CUDA = re.compile(r" --?x[= ]?(?:cu|cuda)(?= |$)")
_QUOTED = re.compile(r"""'([^']*+)'|"((?>(?:[^"\\]++|\\.)*))"|\\(.)""", re.S)
_WORDS = re.compile(rf"""(?>(?:[^ \t\r\n"'\\]++|{_QUOTED.pattern})+)|["'\\]""", re.S)
"""Words as a shell splits them; a lone quote or backslash is an unclosed one."""
_ESCAPED, _OPEN = re.compile(r"\\([\\\"])"), frozenset("\"'\\")


class Compilation(NamedTuple):
    """One call of a compiler or linker of device code."""

    tool: str
    """``nvcc``, ``clang``, ``ptxas`` or ``nvlink``."""
    words: tuple[str, ...]
    """The tool and its arguments, without launchers such as ccache."""
    output: str
    """Output file; empty if not specified."""
    sources: tuple[str, ...]
    """Sources, in order."""

    @property
    def source(self) -> str:
        """First source; empty if there is none."""
        return self.sources[0] if self.sources else ""

    @property
    def relocatable(self) -> bool:
        """Whether it requests relocatable device code (``-dc``, ``-rdc=true``)."""
        return _RELOCATABLE.search(" ".join(self.words)) is not None

    @property
    def compiles(self) -> bool:
        """Whether it stops after the compilation (``-c``, ``-dc``, ``-cubin``, ``-fatbin``, ``-ptx``)."""
        return not _COMPILES.isdisjoint(self.words)


def parse(words: Sequence[str]) -> Compilation | None:
    """The compilation that the command ``words`` does; ``None`` if it calls no compiler or linker of device code."""
    tools = ((at, _TOOL.search(word)) for at, word in enumerate(words) if not word.startswith("-"))
    at, tool = next((each for each in tools if each[1]), (0, None))
    if tool is None:
        return None
    end = words.index("&&", at) if "&&" in words[at:] else len(words)
    output, sources = "", []
    for before, word in pairwise(words[at:end]):
        if before in _OUTPUT_OPTIONS:
            output = word
        elif joined := _OUTPUT.fullmatch(word):
            output = joined[1] or joined[2]
        elif word.endswith(SOURCES) and not word.startswith("-") and before not in _OF_DEPENDENCIES:
            sources.append(word)
    return Compilation(tool[1], tuple(words[at:end]), output, tuple(sources))


def makes_machine_code(words: Sequence[str]) -> bool:
    """Whether the command ``words`` compiles device code to machine code, judging by its options."""
    if not holds_device_code(words) or any(map(_NO_MACHINE_CODE.fullmatch, words)):
        return False
    line = " ".join(words)
    return not _LTO.search(line) or _REAL.search(line) is not None


def holds_device_code(words: Sequence[str]) -> bool | None:
    """Whether a source in the command ``words`` may contain device code; ``None`` if there is no source."""
    sources = [word for word in words if word.endswith(SOURCES) and not word.startswith("-")]
    if not sources:
        return None
    return not all(word.endswith(HOST_SOURCES) for word in sources) or _AS_CUDA.search(" ".join(words)) is not None


def asks_for_report(command: str) -> bool:
    """Whether ``command`` makes ptxas report resource usage."""
    return _REPORT.search(command) is not None


def split(text: str) -> list[str]:
    """Split a command line into words as a shell does; at blanks if a quote is not closed."""
    words = [] if _OPEN.isdisjoint(text) else [match[0] for match in _WORDS.finditer(text)]
    return [_QUOTED.sub(_bare, word) for word in words] if words and _OPEN.isdisjoint(words) else text.split()


def _bare(quoted: re.Match[str]) -> str:
    plain, escaped, character = quoted.groups(default="")
    return plain + _ESCAPED.sub(r"\1", escaped) + character
