"""Parse one line of a log into one message, using the Lark grammars.

Results are cached by lines with the kernel's name replaced, because a message does not depend on the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import cast

from msgspec.structs import replace

from spillscan.model import Advisory, Usage
from spillscan.model.metrics import PRINTED
from spillscan.model.symbols import short_name
from spillscan.model.usage import Printed
from spillscan.reading import grammar
from spillscan.reading.logs import fragments
from spillscan.reading.logs.fragments import holds_piece
from spillscan.reading.logs.messages import (
    CompileTime,
    EntryLine,
    FunctionUsage,
    Ignored,
    LinkProperties,
    LinkUsed,
    Message,
    Module,
    Note,
    Properties,
    Stack,
    Torn,
    Unknown,
    Used,
)

_LINK_REPORT = re.compile(r"nvlink |@[A-Z]@|info    : ")
"""Beginning of an nvlink message: the tool's name, known padding, or the severity alone."""
_LIBRARY_TAG = re.compile(r"@[A-Z]@")

_INFO = r"info *: ?\Z"
"""End of a head without an advice code; codes precede advice."""
_DAMAGED = "[\0\ufffd]"
"""Characters that no tool writes into a name: unwritten bytes and invalid text."""
_SYMBOLS = ("QUOTED_SYMBOL", "BARE_SYMBOL", "SYMBOL")
_OF_BUILDERS = r"(?:ninja|make(?:\[\d+\])?): |\[\d+/\d+\] "
"""Text that no compiler prints."""
_NO_USE = ("processing", "debug_section_missing", "deprecated")
"""Messages unrelated to a kernel's resources."""
_WITH_VALUES = ("spill_warning", "local_memory_warning")
"""Messages that repeat values of a report."""
_KERNEL = re.compile(r"ptxas (?:info|warning)[^'\n]{0,300}?(?:'| entry | properties for )(\w{2,}+)(?='| is |$)")
"""A line with a single word in the place of a kernel's name."""
_TIME = re.compile(r"(?<=Compile time = )\d{1,15}(?:\.\d{1,15})?(?= ms$)")
ANY_KERNEL = "_Z5ptxas"
"""Stand-in for a one-word name, in its worst case: a ptxas head may begin at its end."""
_CLAUSE_FIELDS = {each.clause: each.name for each in PRINTED if each.clause} | {
    "frame": "stack_bytes",
    "spill_stores": "spill_store_bytes",
    "spill_loads": "spill_load_bytes",
}


def message(line: str) -> Message | None:
    """Message of a line as :func:`printed`; ``None`` if it is not a tool's report."""
    named = _KERNEL.search(line)
    if named is None:
        time = _TIME.search(line)
        parsed = _read(line if time is None else f"{line[: time.start()]}1{line[time.end() :]}")
        return parsed if time is None or not isinstance(parsed, CompileTime) else CompileTime(float(time[0]))
    name, (begin, end) = named[1], named.span(1)
    parsed = _read(f"{line[:begin]}{ANY_KERNEL}{line[end:]}")
    if not isinstance(parsed, EntryLine | Properties | Note) or parsed.symbol != ANY_KERNEL:
        return _read(line)
    if isinstance(parsed, Note):
        advisory = replace(parsed.advisory, text=parsed.advisory.text.replace(ANY_KERNEL, name))
        return _read(line) if parsed.is_error else replace(parsed, symbol=name, advisory=advisory)
    return replace(parsed, symbol=name)


@lru_cache(maxsize=1 << 14)
def _read(line: str) -> Message | None:
    heads = [match.start() for match in islice(grammar.text_line("_head", "ptxas").finditer(line), 2)]
    if heads:
        if len(heads) > 1 or holds_piece(line[: heads[0]]) or fragments.half_head(line[: heads[0]]):
            return Torn(line)
        return _headed(line[heads[0] :])
    if stack := grammar.text_line("stack", "ptxas").search(line):
        whole = stack.end() == len(line) and not holds_piece(line[: stack.start()]) and "info" not in line
        return ptxas_message(stack[0]) if whole else Torn(line)
    if line[:1].isdigit() and grammar.text_line("stack", "ptxas").fullmatch(f" {line}"):
        parsed = ptxas_message(f" {line}")
        return replace(parsed, indented=False) if isinstance(parsed, Stack) else parsed
    starts = (match.start() for match in _LINK_REPORT.finditer(line))
    start = next((start for start in starts if grammar.text_line("_head", "nvlink").match(line, start)), None)
    if start is not None and (line.startswith(("nvlink", "@"), start) or "ptxas" not in line):
        before = line[:start]
        half = fragments.half_head if line.startswith("nvlink", start) else fragments.half_name
        torn = (before.strip() and half(before.lstrip())) or holds_piece(before)
        return Torn(line) if torn else _library_message(line[start:])
    if (bare := _without_head(line.strip())) is not None:
        return bare
    of_tool = line.startswith(("ptxas ", "nvlink "))
    joined = of_tool and (fragments.half_quoted(line) or re.search(_OF_BUILDERS, line))
    return Torn(line) if joined or holds_piece(line) else None


CALLS_WIDER = ", which it calls, uses "
"""Part of the text on a function with more registers than its caller may use."""
BARE = ("Compiling entry function", "Function ", "Used ")
"""Beginnings of report lines whose head a person left out."""


def _without_head(line: str) -> Message | None:
    """Message of a line that is whole except for its head."""
    parsed = _headed(f"ptxas info    : {line}") if line.startswith(BARE) else None
    whole = isinstance(parsed, EntryLine | Properties | FunctionUsage) or (isinstance(parsed, Used) and not parsed.cut)
    return parsed if whole else None


def _headed(line: str) -> Message:
    """Message of a line that begins with ptxas's name."""
    parsed = ptxas_message(line)
    if isinstance(parsed, EntryLine | Properties):
        return parsed if _is_symbol(parsed.symbol) else Torn(line)
    if (end := fragments.elided(line)) is not None:
        whole = ptxas_message(line[:end])
        if isinstance(whole, Used):
            return replace(whole, cut=True)
    if isinstance(parsed, Unknown):
        return _unknown(parsed, "ptxas", line)
    if isinstance(parsed, Ignored):
        return Torn(line) if _of_two(_parted(line)[1]) else parsed
    if isinstance(parsed, Note) and parsed.advisory.kind not in _WITH_VALUES:
        text = parsed.advisory.text
        if parsed.symbol is not None and parsed.symbol.isidentifier():
            text = text.replace(parsed.symbol, "f")  # so that kernels share cached results
        cut = parsed.advisory.kind == "source_message" and fragments.begins_like_known(text)
        return Torn(line) if cut or _of_two(text) else parsed
    return parsed


@lru_cache(maxsize=1024)
def _of_two(text: str) -> bool:
    """Whether ``text``, which is free text, contains text of another line."""
    joined = any(re.search(pattern, text) for pattern in (_OF_BUILDERS, fragments.HALF_SENTENCE))
    return joined or fragments.half_quoted(text) or holds_piece(text)


def _is_symbol(name: str) -> bool:
    """Whether ``name`` may be a symbol, mangled or demangled."""
    if re.search(_DAMAGED, name):
        return False
    if " " not in name and "'" not in name:
        return True
    balanced = name.count("(") == name.count(")") > 0 or name.count("<") == name.count(">") > 0
    return balanced and not holds_piece(name) and " : " not in name


def _library_message(text: str) -> Message | None:
    parsed = nvlink_message(text)
    if isinstance(parsed, LinkProperties) and not _is_symbol(parsed.symbol):
        return Torn(text)
    if isinstance(parsed, Unknown | Ignored) and not text.startswith("nvlink"):
        # Libraries also print ptxas's own messages without its name.
        own = _headed("ptxas " + _LIBRARY_TAG.sub("", text))
        return None if isinstance(own, Unknown) else own
    if isinstance(parsed, Unknown):
        return _unknown(parsed, "nvlink", text)
    return parsed


def _unknown(parsed: Unknown, tool: str, line: str) -> Unknown | Torn:
    """A message that no rule describes, or :class:`Torn` for a piece of one. Tools begin messages with a capital
    letter."""
    before, text = _parted(line, tool)
    of_report = re.search(_INFO, before) is not None
    torn = fragments.begins_like_known(text) or holds_piece(line) or re.search(_OF_BUILDERS, text)
    return Torn(line) if torn or (of_report and not text[:1].isupper()) else replace(parsed, of_report=of_report)


def _parted(line: str, tool: str = "ptxas") -> tuple[str, str]:
    """A tool's head and the message after it; the head is empty if another tool printed the line."""
    parsed = grammar.text_line("_head", tool).match(line)
    return (parsed[0], line[parsed.end() :]) if parsed else ("", line)


@lru_cache(maxsize=1 << 14)
def ptxas_message(line: str) -> Message:
    """Message of a line that starts with ``ptxas``, or of an indented stack line."""
    before = grammar.text_line("_head", "ptxas").match(line)
    if before is None:
        stack = grammar.text_line("stack", "ptxas").fullmatch(line)
        return _stack({name.upper(): value for name, value in stack.groupdict().items()}) if stack else Unknown(line)
    text = line[before.end() :]
    if with_clauses := _with_clauses("ptxas", text, line):
        return with_clauses
    rule, tokens = _body("ptxas", text)
    match rule:
        case "entry":
            return EntryLine(_named(tokens["ENTRY_SYMBOL"]), tokens["ARCH"])
        case "archless_entry":
            return EntryLine(tokens["LONE_SYMBOL"], None)
        case "unquoted_entry":
            return EntryLine(_named(tokens["UNQUOTED_SYMBOL"]), tokens["QUOTED_ARCH"].strip("'"))
        case "properties":
            return Properties(_named(tokens["PROPERTIES_SYMBOL"]))
        case "elided_properties":
            return Properties("")
        case "stack_retold":
            return _stack({**tokens, "STACK_BYTES": tokens["BYTES"]})
        case "compile_time":
            return CompileTime(float(tokens["MILLISECONDS"]))
        case _ if rule in _NO_USE:
            return Ignored()
        case "" | "unknown":
            return _undescribed("ptxas", before, line)
    return _note(rule, before, tokens, line)


_LEFT_OUT = r"\.{2,}|…"


def _named(symbol: str) -> str:
    """A name as printed; empty if a person elided it, or elided parts of it around blanks."""
    if symbol.startswith("'") and symbol.endswith("'"):
        symbol = symbol[1:-1]
    left_out = " " in symbol and symbol.startswith((".", "…"))
    return "" if left_out or not re.sub(_LEFT_OUT, "", symbol).strip(" []<>") else symbol


def nvlink_message(line: str) -> Message:
    """Message of a line of nvlink, nvJitLink or cuLink, including the tool's name if it was printed."""
    before = grammar.text_line("_head", "nvlink").match(line)
    if before is None:
        return Unknown(line)
    text, target = line[before.end() :], None
    if behind := _target().search(text):
        text, target = text[: behind.start()], behind[0].strip(" ()").removeprefix("target: ")
    if with_clauses := _with_clauses("nvlink", text, line):
        match with_clauses:
            case Used(usage, cut):
                return LinkUsed(usage, cut or usage.local_bytes is None)
            case Module():
                return Ignored()  # the linker's module line begins no section of ptxas
        return with_clauses
    rule, tokens = grammar.parse("nvlink", "body", text) or ("", {})
    if rule == "properties":
        return LinkProperties(tokens["SYMBOL"], target)
    if rule == "dynamic_stack":
        return _note(rule, before, tokens, before[0] + text)
    if rule == "register_mismatch":
        caller, callee = (short_name(tokens[name]) for name in ("CALLER", "CALLEE"))
        needed = tokens["CALLEE_REGISTERS"]
        wide = f"{caller} may use {tokens['REGISTERS']} registers, and {callee}{CALLS_WIDER}{needed}"
        way = f"raise the limit of {caller} to {needed} (-maxrregcount, __maxnreg__, launch bounds)"
        return _note("compiler_error", before, {}, f"{before[0]}{wide}; {way}, or limit {callee}")
    parsed = _undescribed("nvlink", before, line)
    # Its own warnings are not about resources.
    return Ignored() if isinstance(parsed, Unknown) and parsed.text != line and before["severity"] != "info" else parsed


@cache
def _target() -> re.Pattern[str]:
    return re.compile(grammar.terminal("TARGET", "nvlink") + r"\Z")


def _undescribed(tool: str, before: re.Match[str], line: str) -> Note | Torn | Unknown:
    """Message that no rule describes: an error, or one with a source location."""
    text = line[before.end() :]
    if text and before["severity"].startswith(("error", "fatal")):
        return _note("compiler_error", before, {}, line)  # even if it begins like a known warning
    if not text or text.startswith(grammar.openings(tool)):
        return Unknown(line)  # begins like a known message
    return _note("source_message", before, {}, line) if before["location"] else Unknown(text)


_CLAUSED = ("usage", "module", "function_usage")


def _with_clauses(tool: str, text: str, line: str) -> Used | Module | FunctionUsage | Torn | Unknown | None:
    """Message of a registers line, a module's first line or a function's line; ``None`` for any other text.

    Parsed and cached per clause, because few clauses are distinct.
    """
    first, *pieces = text.split(",")
    rule, tokens = _body(tool, f"{first},{pieces[0]}" if pieces and first.startswith("Function ") else first)
    if rule not in _CLAUSED:
        return None
    clauses = [clause for clause in map(_clause, pieces) if clause is not None]
    if len(clauses) < len(pieces):
        return Unknown(line)
    used = _usage(int(tokens["REGISTERS"]) if rule == "usage" else None, clauses)
    if rule == "usage":
        return used
    if used.cut:
        return Torn(line)
    return Module(used.usage) if rule == "module" else FunctionUsage(tokens["FUNCTION_SYMBOL"], used.usage)


def _body(tool: str, text: str) -> tuple[str, dict[str, str]]:
    """Rule and tokens of a message without its head."""
    return _parsed(tool, "body", text) or ("", {})


def _parsed(name: str, start: str, text: str) -> tuple[str, dict[str, str]] | None:
    """:func:`grammar.parse`. Regular report lines and clauses are matched without the parser."""
    for rule, form in _regular(name):
        if matched := form.fullmatch(text):
            return rule, {name.upper(): value for name, value in matched.groupdict().items()}
    return grammar.parse(name, start, text)


@cache
def _regular(name: str) -> list[tuple[str, re.Pattern[str]]]:
    """Rules of regular lines, up to the first comma, or of clauses, and their expressions."""
    lines = {"usage": "_registers", "module": "_globals"}
    rules = {
        "ptxas": lines | {rule: rule for rule in ("entry", "properties", "compile_time")},
        "nvlink": lines,
        "usage": {rule: rule for rule in (*_CLAUSE_FIELDS, "constant")},
    }
    return [(rule, grammar.text_line(line, name)) for rule, line in rules[name].items()]


@lru_cache(maxsize=4096)
def _clause(text: str) -> tuple[str, Sequence[str]] | None:
    """Rule and tokens of a clause, given without the comma before it; ``None`` if it is not a clause."""
    parsed = _parsed("usage", "clause", f",{text}")
    return None if parsed is None else (parsed[0], tuple(parsed[1].values()))


def _usage(registers: int | None, clauses: Iterable[tuple[str, Sequence[str]]]) -> Used:
    """Values of clauses, given as (rule, tokens). Two pieces in one clause mean that the rest belongs to another line.

    A whole registers line without shared memory means 0 bytes: every release prints all clauses that are not 0 (CUDA
    4.0 to 13.5).
    """
    values: dict[str, int] = {}
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
            if cut := not fragments.is_new_clause(clause):
                break
            unknown.append(clause)
        else:
            field = _CLAUSE_FIELDS[kind]
            if cut := field in values:
                break
            values[field] = _size(tokens[0])
    if registers is not None and not cut:
        values.setdefault("shared_bytes", 0)
    usage = Usage(
        registers=registers, constant_bytes=tuple(sorted(constants)) or None, unknown_clauses=tuple(unknown), **values
    )
    return Used(usage, cut)


def _size(text: str) -> int:
    return sum(map(int, text.split("+"))) if "+" in text else int(text)


def _note(kind: str, before: re.Match[str], tokens: dict[str, str], line: str) -> Note | Torn:
    symbol = next((tokens[name] for name in _SYMBOLS if name in tokens), None)
    if symbol is not None and not _is_symbol(symbol):
        return Torn(line)
    advisory = Advisory(
        kind=kind,
        text=line[before.end() :],
        severity=cast(Printed, before["severity"].partition(" ")[0]),
        location=before["location"].strip(" ;") if before["location"] else None,
        code=before["code"].strip(" ()") if before.groupdict().get("code") else None,
    )
    spills = None
    if kind == "spill_warning" and "SPILL_STORE_BYTES" in tokens:
        spills = int(tokens["SPILL_STORE_BYTES"]), int(tokens["SPILL_LOAD_BYTES"])
    return Note(advisory, symbol, spills, int(tokens["STACK_BYTES"]) if "STACK_BYTES" in tokens else None)


def _stack(tokens: dict[str, str]) -> Stack:
    return Stack(int(tokens["STACK_BYTES"]), int(tokens["SPILL_STORE_BYTES"]), int(tokens["SPILL_LOAD_BYTES"]))
