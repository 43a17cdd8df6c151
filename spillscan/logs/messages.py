"""From one line of ptxas or nvlink to one message: what the grammar's tree says, as plain records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from spillscan import grammar
from spillscan.model import Advisory, Usage
from spillscan.model.usage import PRINTED, Printed

if TYPE_CHECKING:
    from lark import Token, Tree


@dataclass(frozen=True, slots=True)
class EntryLine:
    """``Compiling entry function``: a kernel's block begins."""

    symbol: str
    arch: str


@dataclass(frozen=True, slots=True)
class Properties:
    """``Function properties for``: the stack line that follows belongs to this kernel or device function."""

    symbol: str


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack line; bytes per thread."""

    frame_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int

    @property
    def spills(self) -> tuple[int, int]:
        """(spill store bytes, spill load bytes)."""
        return self.spill_store_bytes, self.spill_load_bytes


@dataclass(frozen=True, slots=True)
class Used:
    """``Used N registers``: names no kernel. The usage has no stack figures."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class CompileTime:
    """``Compile time``: names no kernel."""

    milliseconds: float


@dataclass(frozen=True, slots=True)
class Module:
    """``N bytes gmem``: the first line of one arch of one translation unit."""

    usage: Usage
    """Global constant banks; unknown clauses."""


@dataclass(frozen=True, slots=True)
class Note:
    """An advisory, warning or error."""

    advisory: Advisory
    symbol: str | None = None
    """The kernel or device function that it names."""
    spills: tuple[int, int] | None = None
    """(spill store bytes, spill load bytes) that it repeats."""
    frame_bytes: int | None = None
    """The stack frame that it repeats, bytes per thread."""

    @property
    def is_error(self) -> bool:
        """Whether the compilation failed by it."""
        return self.advisory.severity in ("error", "fatal")


@dataclass(frozen=True, slots=True)
class Ignored:
    """Understood, and of no use to a record."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A message of a known tool that no rule describes."""

    text: str
    cut: bool = False
    """Whether the input ends in it, without a newline: a log that was cut off."""


@dataclass(frozen=True, slots=True)
class LinkProperties:
    """nvlink's ``Function properties for``."""

    symbol: str
    arch: str | None
    """nvcc 13 adds the target; without it nvlink names no arch."""


@dataclass(frozen=True, slots=True)
class LinkUsed:
    """nvlink's ``used N registers``: final figures of the kernel named on the line before."""

    usage: Usage


Message = (
    EntryLine | Properties | Stack | Used | CompileTime | Module | Note | Ignored | Unknown | LinkProperties | LinkUsed
)

_SYMBOLS = ("QUOTED_SYMBOL", "BARE_SYMBOL", "SYMBOL")
_NOT_ABOUT_KERNELS = ("debug_section_missing", "deprecated")
_CLAUSE_FIELDS = {each.clause: each.name for each in PRINTED if each.clause}


@lru_cache(maxsize=4096)
def ptxas_message(line: str) -> Message:
    """What a line that starts with ``ptxas`` (or a stack line with its indent) says."""
    tree = grammar.parse("ptxas", line, start="line")
    if tree is None:
        return Unknown(line)
    return _interpret(tree, line)


@lru_cache(maxsize=4096)
def nvlink_message(line: str) -> Message:
    """What a line of nvlink, nvJitLink or cuLink says, its tool's name included where it was printed."""
    tree = grammar.parse("nvlink", line, start="line")
    if tree is None:
        return Unknown(line)
    message = _interpret(tree, line)
    if isinstance(message, Properties):
        target = next((str(t) for t in tree.children if isinstance(t, str) and t.type == "TARGET"), None)
        return LinkProperties(message.symbol, target.strip(" ()").removeprefix("target: ") if target else None)
    if isinstance(message, Used):
        return LinkUsed(message.usage)
    if isinstance(message, Module) or (isinstance(message, Unknown) and "info" not in line[:16]):
        return (
            Ignored()
        )  # the linker's module line begins no section of ptxas; its own warnings are not about resources
    return message


def used_line(line: str) -> Usage:
    """The figures of one whole registers line, newline included."""
    tree = grammar.load("ptxas").parse(line, start="usage_line")
    return _usage(next(tree.find_data("usage")))


def _usage(tree: Tree[Token]) -> Usage:
    """The figures of a ``usage`` or ``module`` tree."""
    figures: dict[str, int] = {}
    constants: list[tuple[int, int]] = []
    unknown: list[str] = []
    registers: int | None = None
    for child in tree.children:
        if isinstance(child, str):
            registers = int(child) if child.type == "REGISTERS" else registers
            continue
        kind = grammar.local_name(str(child.data))
        tokens = [str(token) for token in child.children]
        if kind == "constant":
            constants.append((int(tokens[1]), _size(tokens[0])))
        elif kind == "other":
            unknown.append("".join(tokens).strip(", "))
        else:
            figures[_CLAUSE_FIELDS[kind]] = _size(tokens[0])
    return Usage(
        registers=registers,
        constant_bytes=tuple(sorted(constants)) or None,
        unknown_clauses=tuple(unknown),
        **figures,
    )


def _size(text: str) -> int:
    return sum(map(int, text.split("+")))


def _interpret(tree: Tree[Token], line: str) -> Message:
    if tree.data == "stack":
        return _stack(_tokens(tree))
    body = next(child for child in tree.children if not isinstance(child, str))
    head = _tokens(tree)
    kind = str(body.data)
    tokens = _tokens(body)
    if kind == "entry":
        return EntryLine(tokens["ENTRY_SYMBOL"], tokens["ARCH"])
    if kind == "properties":
        return Properties(tokens.get("PROPERTIES_SYMBOL") or tokens["SYMBOL"])
    if kind == "usage":
        return Used(_usage(body))
    if kind == "module":
        return Module(_usage(body))
    if kind == "compile_time":
        return CompileTime(float(tokens["MILLISECONDS"]))
    if kind == "processing":
        return Ignored()
    if kind == "unknown":
        if head["SEVERITY"] in ("error", "fatal"):
            kind = "compiler_error"
        elif "LOCATION" in head:
            kind = "source_message"  # ptxas on the PTX text, whatever it says
        else:
            return Unknown(tokens["UNKNOWN"])
    if kind in _NOT_ABOUT_KERNELS:
        return Ignored()
    return _note(kind, head, tokens, line)


def _note(kind: str, head: dict[str, str], tokens: dict[str, str], line: str) -> Note:
    head_pattern = grammar.pattern("nvlink" if line.startswith(("nvlink", "@", head["SEVERITY"])) else "ptxas", "_head")
    printed = line.encode()
    match = head_pattern.match(printed)
    advisory = Advisory(
        kind=kind,
        text=printed[match.end() if match else 0 :].decode(),
        severity=cast(Printed, head["SEVERITY"]),
        location=head["LOCATION"].strip(" ;") if "LOCATION" in head else None,
        code=head["CODE"].strip(" ()") if "CODE" in head else None,
    )
    symbol = next((tokens[name] for name in _SYMBOLS if name in tokens), None)
    spills = None
    if kind == "spill_warning" and "SPILL_STORE_BYTES" in tokens:
        spills = int(tokens["SPILL_STORE_BYTES"]), int(tokens["SPILL_LOAD_BYTES"])
    return Note(advisory, symbol, spills, int(tokens["STACK_BYTES"]) if "STACK_BYTES" in tokens else None)


def _tokens(tree: Tree[Token]) -> dict[str, str]:
    return {token.type: str(token) for token in tree.children if isinstance(token, str)}


def _stack(tokens: dict[str, str]) -> Stack:
    return Stack(int(tokens["STACK_BYTES"]), int(tokens["SPILL_STORE_BYTES"]), int(tokens["SPILL_LOAD_BYTES"]))
