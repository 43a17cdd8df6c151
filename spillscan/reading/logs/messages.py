"""From one line of a log to one message of ptxas or nvlink: what the grammar's tree says, as plain records.

A line that holds pieces of a report and is no whole message is :class:`Torn`: cut, damaged, or two lines in one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, AnyStr, cast

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model import Advisory, Usage
from spillscan.model.usage import PRINTED, Printed
from spillscan.reading import grammar
from spillscan.reading.logs import remnants
from spillscan.reading.logs.remnants import PIECE

if TYPE_CHECKING:
    from lark import Token, Tree


class EntryLine(Struct, frozen=True):
    """``Compiling entry function``: a kernel's block begins."""

    symbol: str
    arch: str | None
    """Before release 3.0 it was not printed."""


class Properties(Struct, frozen=True):
    """``Function properties for``: the stack line that follows belongs to this kernel or device function."""

    symbol: str


class Stack(Struct, frozen=True):
    """The stack line; bytes per thread."""

    frame_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    indented: bool = True
    """Tools indent it; a paste may not, and a cut number stands at the beginning of its line, too."""

    @property
    def spills(self) -> tuple[int, int]:
        """(spill store bytes, spill load bytes)."""
        return self.spill_store_bytes, self.spill_load_bytes


class Used(Struct, frozen=True):
    """``Used N registers``: names no kernel. The usage has no stack figures."""

    usage: Usage
    cut: bool = False
    """Clauses at its end are missing, or are another line's."""


class CompileTime(Struct, frozen=True):
    """``Compile time``: names no kernel."""

    milliseconds: float


class Module(Struct, frozen=True):
    """``N bytes gmem``: the first line of one arch of one translation unit."""

    usage: Usage
    """Global constant banks; unknown clauses."""


class Note(Struct, frozen=True):
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


class Ignored(Struct, frozen=True):
    """Understood, and of no use to a record."""


class Unknown(Struct, frozen=True):
    """A message of a known tool that no rule describes."""

    text: str
    of_report: bool = False
    """It stands among the figures, and is no warning or advice: it may be one of them."""


class Torn(Struct, frozen=True):
    """A line with pieces of a report that is no whole message: cut, damaged, or of two writers."""

    text: str
    """The line."""

    @property
    def spilled(self) -> bool:
        """It is the compiler's warning of spills."""
        return "Registers are spilled" in self.text

    @property
    def elided(self) -> bool:
        """Somebody left out its end."""
        return remnants.ELIDED.search(self.text) is not None

    @property
    def glued(self) -> bool:
        """Another message begins in it."""
        return len(text_pattern("ptxas", "_head").findall(self.text)) > 1


class LinkProperties(Struct, frozen=True):
    """nvlink's ``Function properties for``."""

    symbol: str
    arch: str | None
    """nvcc 13 adds the target; without it nvlink names no arch."""


class LinkUsed(Struct, frozen=True):
    """nvlink's ``used N registers``: final figures of the kernel named on the line before."""

    usage: Usage
    cut: bool = False
    """Clauses at its end are missing: nvlink always prints local memory."""


Message = (
    EntryLine
    | Properties
    | Stack
    | Used
    | CompileTime
    | Module
    | Note
    | Ignored
    | Unknown
    | Torn
    | LinkProperties
    | LinkUsed
)

# Lines may be as long as the file: what is tried at many places of one never reads on to the next such place.
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[\]_P^X][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Colours, and what terminals and CI services hide in a line."""
_ENTITY = re.compile(r"&(?:#39|#x27|apos|quot|lt|gt|amp|nbsp);")
_AS_PRINTED = str.maketrans(dict.fromkeys("\t\u00a0\u2007\u202f", " ") | dict.fromkeys("`´‘’‚‛′“”„", "'"))
"""What editors, browsers and forums put in the place of blanks and quotes."""
_BREAKS = ("<br>", "<br/>", "<br />")
_MARKED = re.compile(r"\s*(?:ptxas |nvlink |info  |\d+ bytes )")
_MARKS = ("'", "**")
"""Code marks (backquotes are quotes by then) and bold letters."""
_LINK_REPORT = re.compile(r"nvlink |@[A-Z]@|info    : ")
"""Where a severity counts: a tool's name, a known padding or nothing but a prefix stands around it."""
_LIBRARY_TAG = re.compile(r"@[A-Z]@")

_INFO = re.compile(r"info *: ?\Z")
"""The end of a head, where it has no code: codes stand before advice."""
_DAMAGED = re.compile("[\0\ufffd]")
"""What no tool writes into a name: bytes that were never written, and those that are no text."""
_SYMBOLS = ("QUOTED_SYMBOL", "BARE_SYMBOL", "SYMBOL")
_NOT_ABOUT_KERNELS = ("debug_section_missing", "deprecated")
_OF_BUILDERS = re.compile(r"(?:ninja|make(?:\[\d+\])?): |\[\d+/\d+\] ")
"""What no compiler says."""
_ANY_TEXT = ("source_message", "compiler_error")
"""Messages known by their severity and place alone."""
_WITH_FIGURES = ("spill_warning", "local_memory_warning")
"""Messages that repeat figures of a report."""
OF_KERNELS = (*_WITH_FIGURES, "dynamic_stack", "register_limit_overridden", "min_blocks_out_of_range")
"""Messages that a build may have of each of its kernels."""
ANY_KERNEL = "_Z5ptxas"
"""The most that a name of one word can do to a line: a head of ptxas may begin at its end."""
_CLAUSE_FIELDS = {each.clause: each.name for each in PRINTED if each.clause}


def plain(line: str) -> str:
    """``line`` as the tool printed it: without colours, typographic blanks and quotes, marks of Markdown and HTML,
    blanks at its end.
    """
    if "\x1b" in line:
        line = ANSI.sub("", line)
    if "&" in line and _ENTITY.search(line):
        from html import unescape

        line = unescape(line)
    if "\t" in line or "`" in line or not line.isascii():
        line = line.translate(_AS_PRINTED)
    line = line.rstrip()
    while line.endswith(_BREAKS):
        line = line[: line.rindex("<br")].rstrip()
    for mark in _MARKS:
        if line.endswith(mark) and _MARKED.match(line.lstrip(), len(mark)) and line.lstrip().startswith(mark):
            line = line.lstrip()[len(mark) : -len(mark)].rstrip()
    return line


def printed(raw: bytes) -> str:
    """A line as the tool printed it: :func:`plain`, and without the project that MSBuild puts behind it:
    ``… [C:\\x.vcxproj::TargetFramework=net8.0]``."""
    line = plain(raw.decode("utf-8", "replace"))
    head, bracket, project = line.removesuffix("]").rpartition(" [")
    if not bracket or not line.endswith("]") or "[" in project or "]" in project:
        return line
    return head if project.endswith("proj") or "proj::" in project else line


def of_any_kernel(before: bytes, behind: bytes) -> Note | None:
    """What a line says of a kernel, whatever name of one word stands in it between these: :data:`ANY_KERNEL` is in its
    place. ``None`` for a line that says anything else, or an error."""
    line = b"%b%b%b" % (before, ANY_KERNEL.encode(), behind)
    found = message(text) if (text := printed(line)) == line.decode("utf-8", "replace").rstrip("\n") else None
    return found if isinstance(found, Note) and found.symbol == ANY_KERNEL and not found.is_error else None


def message(line: str) -> Message | None:
    """What a line says, as it was :func:`printed`; ``None`` for a line that is no tool's report."""
    heads = [match.start() for match in islice(text_pattern("ptxas", "_head").finditer(line), 2)]
    if heads:
        if len(heads) > 1 or PIECE.search(line, 0, heads[0]) or remnants.HALF_HEAD.search(line[: heads[0]]):
            return Torn(line)
        return _headed(line[heads[0] :])
    if stack := text_pattern("ptxas", "stack").search(line):
        whole = stack.end() == len(line) and not PIECE.search(line, 0, stack.start()) and "info" not in line
        return ptxas_message(stack[0]) if whole else Torn(line)
    if line[:1].isdigit() and text_pattern("ptxas", "stack").fullmatch(f" {line}"):
        found = ptxas_message(f" {line}")
        return replace(found, indented=False) if isinstance(found, Stack) else found
    starts = (match.start() for match in _LINK_REPORT.finditer(line))
    start = next((start for start in starts if text_pattern("nvlink", "_head").match(line, start)), None)
    if start is not None and (line.startswith(("nvlink", "@"), start) or "ptxas" not in line):
        before = line[:start]
        half = remnants.HALF_HEAD if line.startswith("nvlink", start) else remnants.HALF_NAME
        torn = (before.strip() and half.search(before.lstrip())) or PIECE.search(before)
        return Torn(line) if torn else _library_message(line[start:])
    of_tool = line.startswith(("ptxas ", "nvlink "))
    joined = of_tool and (remnants.half_quoted(line) or _OF_BUILDERS.search(line))
    return Torn(line) if joined or PIECE.search(line) else None


def _headed(line: str) -> Message:
    """What a line says that begins with ptxas's name."""
    # Names are as many as lines: no parse tree for each.
    if named := text_pattern("ptxas", "properties_line").fullmatch(line):
        return Properties(named["PROPERTIES_SYMBOL"]) if _is_symbol(named["PROPERTIES_SYMBOL"]) else Torn(line)
    if entry := text_pattern("ptxas", "entry_line").fullmatch(line):
        return EntryLine(entry["ENTRY_SYMBOL"], entry["ARCH"]) if _is_symbol(entry["ENTRY_SYMBOL"]) else Torn(line)
    elided = remnants.ELIDED.search(line) if line.endswith((",", "..", "…", "]")) else None
    found = ptxas_message(line[: elided.start()] if elided else line)
    if elided and isinstance(found, Used):
        return replace(found, cut=True)
    if elided:
        found = ptxas_message(line)
    if isinstance(found, Unknown):
        return _unknown(found, "ptxas", line)
    if isinstance(found, Ignored):
        return Torn(line) if _of_two(_parted(line)[1]) else found
    if isinstance(found, Note) and found.advisory.kind not in _WITH_FIGURES:
        text = found.advisory.text
        if found.symbol is not None and found.symbol.isidentifier():
            text = text.replace(found.symbol, "f")  # then kernels share what they are warned of
        broken_off = found.advisory.kind in _ANY_TEXT and remnants.breaks_off(text)
        return Torn(line) if broken_off or _of_two(text) else found
    return found


@lru_cache(maxsize=1024)
def _of_two(text: str) -> bool:
    """Whether ``text``, which may say much, holds what only another line says."""
    return remnants.half_quoted(text) or any(
        pattern.search(text) for pattern in (PIECE, _OF_BUILDERS, remnants.HALF_SENTENCE)
    )


def _is_symbol(name: str) -> bool:
    """Whether ``name`` may be one: mangled, or as a demangler writes it."""
    if _DAMAGED.search(name):
        return False
    if " " not in name and "'" not in name:
        return True
    balanced = name.count("(") == name.count(")") > 0 or name.count("<") == name.count(">") > 0
    return balanced and not PIECE.search(name) and " : " not in name


def _library_message(text: str) -> Message | None:
    found = nvlink_message(text)
    if isinstance(found, LinkProperties) and not _is_symbol(found.symbol):
        return Torn(text)
    if isinstance(found, Unknown | Ignored) and not text.startswith("nvlink"):
        # Libraries print ptxas's own messages without its name, too.
        own = _headed("ptxas " + _LIBRARY_TAG.sub("", text))
        return None if isinstance(own, Unknown) else own
    if isinstance(found, Unknown):
        return _unknown(found, "nvlink", text)
    return found


def _unknown(found: Unknown, tool: str, line: str) -> Unknown | Torn:
    """A message that no rule describes, or what is left of one: all that tools say begins with a capital letter."""
    head, text = _parted(line, tool)
    of_report = _INFO.search(head) is not None
    pieces = remnants.of_known(text) or remnants.breaks_off(text, figures=of_report)
    torn = pieces or PIECE.search(line) or _OF_BUILDERS.search(text)
    return Torn(line) if torn or (of_report and not text[:1].isupper()) else replace(found, of_report=of_report)


def _parted(line: str, tool: str = "ptxas") -> tuple[str, str]:
    """The head that a tool puts before a message, and what it says; no head where another speaks."""
    head = text_pattern(tool, "_head").match(line)
    return (head[0], line[head.end() :]) if head else ("", line)


@cache
def text_pattern(name: str, rule: str) -> re.Pattern[str]:
    """:func:`spillscan.reading.grammar.pattern` for text."""
    return re.compile(grammar.expression(name, rule))


@lru_cache(maxsize=4096)
def ptxas_message(line: str) -> Message:
    """What a line that starts with ``ptxas`` (or a stack line with its indent) says."""
    if (usual := _usual(line)) is not None:
        return usual
    tree = grammar.parse("ptxas", line, start="line")
    if tree is None:
        return Unknown(line)
    return _interpret(tree, line)


def _usual(line: str) -> Message | None:
    """What the lines say that stand in every report, by the expressions of their rules, which take a tenth of the time
    of Lark. ``None`` for any other line."""
    head, text = _parted(line)
    if not head:
        stack = text_pattern("ptxas", "stack").fullmatch(line)
        return None if stack is None else _stack(stack.groupdict())
    if time := text_pattern("ptxas", "compile_time").fullmatch(text):
        return CompileTime(float(time["MILLISECONDS"]))
    return _known_clauses(line.encode("utf-8", "surrogateescape")) or _of_kernel(head, text)


def _of_kernel(head: str, text: str) -> Note | Torn | None:
    """What a compiler says of one kernel whose name is mangled; ``None`` for any other line."""
    for kind in OF_KERNELS:
        if whole := text_pattern("ptxas", kind).fullmatch(text):
            tokens = _groups(whole)
            if any(tokens.get(name, "").isidentifier() for name in _SYMBOLS):
                return _note(kind, _head_tokens(head), tokens, head + text, text)
    return None


@lru_cache(maxsize=1024)
def _head_tokens(head: str) -> dict[str, str]:
    """What stands before a message of ptxas, by the names of terminals."""
    found = grammar.line("_head", "ptxas").match(head.encode("utf-8", "surrogateescape"))
    return {name.upper(): each.decode() for name, each in _groups(found).items()}


@lru_cache(maxsize=4096)
def nvlink_message(line: str) -> Message:
    """What a line of nvlink, nvJitLink or cuLink says, its tool's name included where it was printed."""
    tree = grammar.parse("nvlink", line, start="line")
    if tree is None:
        return Unknown(line)
    found = _interpret(tree, line)
    if isinstance(found, Properties):
        target = next((str(t) for t in tree.children if isinstance(t, str) and t.type == "TARGET"), None)
        return LinkProperties(found.symbol, target.strip(" ()").removeprefix("target: ") if target else None)
    if isinstance(found, Used):
        return LinkUsed(found.usage, found.cut or found.usage.local_bytes is None)
    if isinstance(found, Module) or (isinstance(found, Unknown) and "info" not in line[:16]):
        # The linker's module line begins no section of ptxas; its own warnings are not about resources.
        return Ignored()
    return found


def used_line(line: bytes) -> Used:
    """The figures of one whole registers line, newline included."""
    found = _known_clauses(line)
    if isinstance(found, Used):
        return found
    text = line.decode("utf-8", "replace")
    return _usage(next(grammar.load("ptxas").parse(text, start="usage_line").find_data("usage")))


def _known_clauses(line: bytes) -> Used | Module | None:
    """What a registers or module line says whose clauses are all known; ``None`` for any other line. Lark takes much
    longer, and a build has thousands of distinct lines."""
    head = grammar.pattern("ptxas", "registers").match(line) or grammar.pattern("ptxas", "globals").match(line)
    if head is None:
        return None
    first, *pieces = line[head.end() :].rstrip(b"\r\n").split(b",")
    clauses = [clause for clause in map(_known_clause, pieces) if clause is not None]
    if first or len(clauses) < len(pieces):
        return None
    registers = head.groupdict().get("REGISTERS")
    used = _figures(None if registers is None else int(registers), clauses)
    if registers is not None:
        return used
    return None if used.cut else Module(used.usage)


@lru_cache(maxsize=4096)
def _known_clause(text: bytes) -> tuple[str, Sequence[str]] | None:
    """The rule of a clause, without the comma before it, and its tokens; ``None`` where it is not known."""
    found = grammar.alternatives("ptxas", "clause").fullmatch(b"," + text)
    if found is None or found.lastgroup is None or found.lastgroup == "other":
        return None
    _, *tokens = [token.decode() for token in found.groups() if token is not None]
    return found.lastgroup, tokens


def _usage(tree: Tree[Token]) -> Used:
    """The figures of a ``usage`` or ``module`` tree."""
    registers = next((int(each) for each in tree.children if isinstance(each, str) and each.type == "REGISTERS"), None)
    clauses = (each for each in tree.children if not isinstance(each, str))
    return _figures(
        registers, ((grammar.local_name(str(each.data)), list(map(str, each.children))) for each in clauses)
    )


def _figures(registers: int | None, clauses: Iterable[tuple[str, Sequence[str]]]) -> Used:
    """The figures of (rule, tokens) of each clause. What follows two pieces in one clause is another line's."""
    figures: dict[str, int] = {}
    constants: list[tuple[int, int]] = []
    unknown: list[str] = []
    cut = False
    for kind, tokens in clauses:
        if kind == "constant":
            bank = int(tokens[1])
            if cut := any(bank == other for other, _ in constants):
                break
            constants.append((bank, _size(tokens[0])))
        elif kind == "other":
            clause = "".join(tokens).strip(", ")
            if cut := remnants.of_known_clauses(clause):
                break
            unknown.append(clause)
        else:
            field = _CLAUSE_FIELDS[kind]
            if cut := field in figures:
                break
            figures[field] = _size(tokens[0])
    usage = Usage(
        registers=registers,
        constant_bytes=tuple(sorted(constants)) or None,
        unknown_clauses=tuple(unknown),
        **figures,
    )
    return Used(usage, cut)


def _size(text: str) -> int:
    return sum(map(int, text.split("+"))) if "+" in text else int(text)


def _interpret(tree: Tree[Token], line: str) -> Message:
    if tree.data == "stack":
        return _stack(_tokens(tree))
    body = next(child for child in tree.children if not isinstance(child, str))
    head = _tokens(tree)
    kind = str(body.data)
    tokens = _tokens(body)
    if kind == "entry":
        return EntryLine(tokens["ENTRY_SYMBOL"], tokens["ARCH"])
    if kind == "archless_entry":
        return EntryLine(tokens["LONE_SYMBOL"], None)
    if kind == "properties":
        return Properties(tokens.get("PROPERTIES_SYMBOL") or tokens["SYMBOL"])
    if kind == "usage":
        return _usage(body)
    if kind == "module":
        used = _usage(body)
        return Torn(line) if used.cut else Module(used.usage)
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
    tool = "nvlink" if line.startswith(("nvlink", "@", head["SEVERITY"])) else "ptxas"
    return _note(kind, head, tokens, line, _parted(line, tool)[1])


def _note(kind: str, head: dict[str, str], tokens: dict[str, str], line: str, text: str) -> Note | Torn:
    symbol = next((tokens[name] for name in _SYMBOLS if name in tokens), None)
    if symbol is not None and not _is_symbol(symbol):
        return Torn(line)
    advisory = Advisory(
        kind=kind,
        text=text,
        severity=cast(Printed, head["SEVERITY"]),
        location=head["LOCATION"].strip(" ;") if "LOCATION" in head else None,
        code=head["CODE"].strip(" ()") if "CODE" in head else None,
    )
    spills = None
    if kind == "spill_warning" and "SPILL_STORE_BYTES" in tokens:
        spills = int(tokens["SPILL_STORE_BYTES"]), int(tokens["SPILL_LOAD_BYTES"])
    return Note(advisory, symbol, spills, int(tokens["STACK_BYTES"]) if "STACK_BYTES" in tokens else None)


def _groups(match: re.Match[AnyStr] | None) -> dict[str, AnyStr]:
    return {name: text for name, text in match.groupdict().items() if text is not None} if match else {}


def _tokens(tree: Tree[Token]) -> dict[str, str]:
    return {token.type: str(token) for token in tree.children if isinstance(token, str)}


def _stack(tokens: dict[str, str]) -> Stack:
    return Stack(int(tokens["STACK_BYTES"]), int(tokens["SPILL_STORE_BYTES"]), int(tokens["SPILL_LOAD_BYTES"]))
