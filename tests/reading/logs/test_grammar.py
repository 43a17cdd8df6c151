"""The grammars, and that scanners derived from them see what a full parse sees."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from lark import Token, Tree
from lark.exceptions import UnexpectedInput
from lark.lexer import TerminalDef

from spillscan.reading import grammar
from spillscan.reading.expressions import local_name
from spillscan.reading.logs.messages import EntryLine, Properties, Stack, head
from spillscan.reading.logs.parsing import _NO_USE, _clause, ptxas_message, text_pattern, used_line
from tests.conftest import FIXTURES, ROOT, manifest, read_any, read_text

GRAMMARS = sorted(path.stem for path in (ROOT / "grammars").glob("*.lark"))
LOGS = [entry["file"] for entry in manifest() if entry["format"] == "ptxas" and "/capture-" not in entry["file"]]
SMALL_LOGS = [file for file in LOGS if file.startswith("ptxas/")]


def test_every_grammar_is_found_and_explains_itself() -> None:
    assert {"ptxas", "nvlink", "usage", "prefix", "buildstep"} <= set(GRAMMARS)
    for name in GRAMMARS:
        text = grammar.text(name)
        assert text.startswith("//"), f"{name}.lark begins with what it describes"


def ptxas_lines(file: str) -> list[str]:
    lines = read_text(FIXTURES / file).split("\n")
    return [
        line for line in lines if re.match(r"ptxas .*?(?:info|warning|error|fatal)|    \d+ bytes stack frame", line)
    ]


@pytest.mark.parametrize("file", SMALL_LOGS)
def test_a_whole_log_parses_at_once(file: str) -> None:
    """The report rule describes a log from its first line to its last; nothing in it is unknown but errors and
    what ptxas says of the PTX text, line by line."""
    lines = ptxas_lines(file)
    tree = grammar.load("ptxas").parse("\n".join(lines) + "\n", start="report")
    assert len(tree.children) == len(lines)
    for line, subtree in zip(lines, tree.children, strict=True):
        unknown = list(subtree.find_data("unknown"))
        assert not unknown or re.match(r"ptxas[^:]*(?:error|fatal)|ptxas [^;]+, line \d+;", line), line


Said = tuple[str, dict[str, str], list[tuple[str, tuple[str, ...]]]]
"""The rule of a line, its tokens, and its clauses."""


def by_parser(line: str) -> Said | None:
    """What Lark makes of a line; ``None``: nothing."""
    try:
        tree = grammar.load("ptxas").parse(line, start="line")
    except UnexpectedInput:
        return None
    body = next((child for child in tree.children if isinstance(child, Tree)), tree)
    tokens = {each.type: str(each) for each in body.children if isinstance(each, Token) and each.type[0] != "_"}
    clauses = [each for each in body.children if isinstance(each, Tree)]
    return (
        str(body.data),
        tokens,
        [(local_name(str(each.data)), tuple(map(str, each.children))) for each in clauses],
    )


def by_expressions(line: str) -> Said | None:
    """The same by the expressions derived from the rules."""
    before = head("ptxas").match(line)
    if before is None:
        stack = text_pattern("ptxas", "stack").fullmatch(line)
        return stack and ("stack", stack.groupdict(), [])
    text = line[before.end() :]
    for rule, beginning in (("usage", "_registers"), ("module", "_globals")):
        if start := text_pattern("ptxas", beginning).match(text):
            first, *pieces = text[start.end() :].split(",")
            clauses = [_clause(piece) for piece in pieces]
            known = [clause for clause in clauses if clause]
            return (rule, start.groupdict(), known) if not first and known == clauses else None
    found = grammar.read("ptxas", "_body", text)
    if found is None or (found[0] == "unknown" and text.startswith(grammar.openings("ptxas", "_body"))):
        return None
    return *found, []


@pytest.mark.parametrize("file", SMALL_LOGS)
def test_derived_expressions_match_what_the_parser_sees(file: str) -> None:
    entry = re.compile(grammar.pattern("ptxas", "entry_line").pattern.decode())
    properties = re.compile(grammar.pattern("ptxas", "properties_line").pattern.decode())
    stack = re.compile(grammar.pattern("ptxas", "stack").pattern.decode())
    for line in ptxas_lines(file):
        parsed = by_parser(line)
        assert by_expressions(line) == parsed
        rule = parsed[0] if parsed else ""
        assert (entry.fullmatch(line) is not None) == isinstance(ptxas_message(line), EntryLine) == (rule == "entry")
        assert (properties.fullmatch(line) is not None) == (rule == "properties")
        assert (properties.fullmatch(line) is not None) == isinstance(ptxas_message(line), Properties)
        assert (stack.fullmatch(line) is not None) == isinstance(ptxas_message(line), Stack) == (rule == "stack")


def test_block_expression_finds_exactly_the_blocks() -> None:
    """On a clean log, the blocks that the derived expression cuts are the kernels that the parser sees."""
    text = read_text(FIXTURES / "ptxas" / "calls-13.0.log")
    lines = "\n".join(ptxas_lines("ptxas/calls-13.0.log")) + "\n"
    tree = grammar.load("ptxas").parse(lines, start="report")
    entries = [str(node.children[0]) for node in tree.find_data("entry")]
    resources = grammar.pattern("ptxas", "resource_lines")
    names = (("PROPERTIES_SYMBOL", "ENTRY_SYMBOL"),)
    block = grammar.pattern("ptxas", "kernel_block", (("resource_lines", 2),), names)
    matches = list(block.finditer(text.encode()))
    found = [match["ENTRY_SYMBOL"].decode() for match in matches]
    assert sorted(found) == sorted(entries)
    assert all(resources.fullmatch(match["resource_lines"]) for match in matches)
    assert found
    for changed in (f"{found[0]}x", found[0][:-1]):  # two names in one block
        other = text.replace(f"properties for {found[0]}\n", f"properties for {changed}\n", 1)
        assert [match["ENTRY_SYMBOL"].decode() for match in block.finditer(other.encode())] == found[1:]


def test_a_full_parse_yields_the_same_figures() -> None:
    """Lark alone, on the whole log at once, against the reader."""
    lines = "\n".join(ptxas_lines("ptxas/memory-13.0.log")) + "\n"
    tree = grammar.load("ptxas").parse(lines, start="report")
    registers = [int(str(node.children[0])) for node in tree.find_data("usage")]
    kernels = [k for k in read_any(FIXTURES / "ptxas" / "memory-13.0.log").kernels if k.role == "entry"]
    assert registers == [kernel.usage.registers for kernel in kernels]


CLAUSES = (
    *("used 0 barriers", "used 16 barriers", "520 bytes cumulative stack size", "40 stack", "1160 bytes smem"),
    *("16+16 bytes smem", "360 bytes cmem[0]", "8 bytes cmem[2]", "4+0 bytes lmem", "1 textures", "2 surfaces"),
    *("3 samplers", "used 3 uniform registers", "12 bytes tmem", "anything", "360 bytes cmem[0", "8 bytes cmem[2]x"),
)


def test_registers_lines_read_alike_by_the_expression_and_by_the_parser() -> None:
    chance = random.Random(7)
    lines = {line for file in SMALL_LOGS for line in ptxas_lines(file) if re.search(r" Used \d+ registers", line)}
    for _ in range(400):
        some = chance.choices(CLAUSES, k=chance.randrange(6))
        lines.add(", ".join((f"ptxas info    : Used {chance.randrange(256)} registers", *some)))
    read = [line for line in sorted(lines) if grammar.pattern("ptxas", "usage_line").fullmatch(f"{line}\n".encode())]
    assert len(read) > 400
    for line in read:
        assert by_expressions(line) == by_parser(line), line
        for end in ("\n", "\r\n"):
            assert used_line(f"{line}{end}".encode()) == ptxas_message(line), line


def test_every_message_that_a_tool_was_made_to_print_is_met() -> None:
    """Each alternative of the message rule occurs in a fixture, but those marked as seen in the tool's strings only."""
    source = grammar.text("ptxas")
    bodies = re.search(r"^_body: _figures(.*?)\n\n_figures: (.*?)\n\n", source, re.MULTILINE | re.DOTALL)
    assert bodies
    kinds = set(re.findall(r"\w+", f"{bodies[1]} {bodies[2]}"))
    strings_only = set(
        re.findall(
            r"^// (?:\(in the tool's strings\)|[^\n]*\(retold by people\)$)[^\n]*\n(?://[^\n]*\n)*(\w+):",
            source,
            re.MULTILINE,
        )
    )
    # Texts that only releases between those of the fixtures print, or none that we have.
    never_made = {
        "archless_entry",
        "performance_loss",
        "modifier_advisory",
        "deprecated",
        "register_allocation_failed",
        "unknown",
    }
    missing = kinds - strings_only - never_made
    logs = [entry["file"] for entry in manifest() if entry["format"] in ("ptxas", "mixed")]
    for log in sorted(logs, key=lambda name: (FIXTURES / name).stat().st_size):
        for line in dict.fromkeys(ptxas_lines(log)) if missing and "/capture-" not in log else ():
            missing -= kinds_in(line)
    assert not missing, (
        f"no fixture shows {sorted(missing)}: `python fixtures/make.py --missing` makes cases of fixtures/cases.yaml;"
        " what no tool can be made to print is marked `(in the tool's strings)` above its rule"
    )


def kinds_in(line: str) -> set[str]:
    said = by_expressions(line)
    return {said[0]} if said else set()


def test_kinds_of_notes_are_rules_of_the_grammar() -> None:
    from spillscan.judging.rules.advisories import COSTLY

    rules = {str(rule.origin.name) for rule in grammar.load("ptxas").rules}
    assert set(COSTLY) <= rules
    assert set(_NO_USE) <= rules


def spelled(terminal: TerminalDef) -> tuple[str, str, int]:
    return terminal.name, terminal.pattern.to_regexp(), terminal.priority


def test_a_kept_grammar_is_as_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = grammar.load.__wrapped__
    new, kept = compiled("ptxas"), compiled("ptxas")
    file = tmp_path / "spillscan" / "grammars" / "ptxas.lark"
    whole = file.read_bytes()
    line = "ptxas info    : Used 30 registers, 380 bytes cmem[0]\n"
    for damage in (whole, whole[:-100], b"", whole[:3000] + bytes(3000) + whole[6000:]):
        file.write_bytes(damage)
        kept = compiled("ptxas")
        assert kept.parse(line, start="usage_line") == new.parse(line, start="usage_line")
        assert kept.rules == new.rules
        assert list(map(spelled, kept.terminals)) == list(map(spelled, new.terminals))


def test_a_kept_expression_is_as_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fresh() -> str:
        for each in (grammar._kept_expressions, grammar._expressions_file):
            each.cache_clear()
        return grammar.pattern.__wrapped__("ptxas", "stack").pattern.decode()

    new = fresh()
    (file,) = (tmp_path / "spillscan" / "grammars").glob("ptxas-*.json")
    whole = file.read_bytes()
    for damage in (whole, whole.replace(b"stores", b"st0res"), whole[:-9], b"", b"00000000[]"):
        file.write_bytes(damage)
        assert fresh() == new
    file.write_bytes(whole)
    for each in ("load", "lexer", "_lexer"):
        monkeypatch.setattr(grammar, each, None)
    assert fresh() == new, "without the grammar"
    for each in (grammar._kept_expressions, grammar._expressions_file):
        each.cache_clear()


def test_where_nothing_can_be_kept_grammars_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spillscan").write_bytes(b"in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert grammar.load.__wrapped__("buildstep").rules
