"""The grammars: Lark reads every line that a tool printed, and the expression of whole blocks reads what Lark reads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spillscan.reading import grammar
from spillscan.reading.logs import blocks
from spillscan.reading.logs.parsing import _NO_USE
from tests.conftest import FIXTURES, ROOT, manifest, read_any, read_log, read_text

GRAMMARS = sorted(path.stem for path in (ROOT / "grammars").glob("*.lark"))
LOGS = [entry["file"] for entry in manifest() if entry["format"] == "ptxas" and "/capture-" not in entry["file"]]
SMALL_LOGS = [file for file in LOGS if file.startswith("ptxas/")]


def test_every_grammar_is_found_and_explains_itself() -> None:
    assert {"ptxas", "nvlink", "usage", "prefix", "buildstep"} <= set(GRAMMARS)
    for name in GRAMMARS:
        assert grammar.text(name).startswith("//"), f"{name}.lark begins with what it describes"


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


@pytest.mark.parametrize("file", SMALL_LOGS)
def test_lark_alone_reads_the_same_records(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = read_text(FIXTURES / file)
    with_blocks = read_log(text)
    monkeypatch.setattr(blocks.Blocks, "kernels", lambda *_: None)
    monkeypatch.setattr(blocks.Blocks, "written", lambda _, __, position: (position, (), ""))
    alone = read_log(text)
    assert (alone.kernels, alone.issues) == (with_blocks.kernels, with_blocks.issues)


def test_a_block_of_two_names_is_none() -> None:
    text = read_text(FIXTURES / "ptxas" / "calls-13.0.log")
    block = re.compile(grammar.kernel_block())
    found = [match["plain_symbol"].decode() for match in block.finditer(text.encode())]
    assert found
    for changed in (f"{found[0]}x", found[0][:-1]):
        other = text.replace(f"properties for {found[0]}\n", f"properties for {changed}\n", 1)
        assert [match["plain_symbol"].decode() for match in block.finditer(other.encode())] == found[1:]


def test_a_full_parse_yields_the_same_values() -> None:
    """Lark alone, on the whole log at once, against the reader."""
    lines = "\n".join(ptxas_lines("ptxas/memory-13.0.log")) + "\n"
    tree = grammar.load("ptxas").parse(lines, start="report")
    registers = [int(str(node.children[0])) for node in tree.find_data("usage")]
    kernels = [k for k in read_any(FIXTURES / "ptxas" / "memory-13.0.log").kernels if k.role == "entry"]
    assert registers == [kernel.usage.registers for kernel in kernels]


BLOCK = (
    "ptxas info    : Compiling entry function 'k' for 'sm_90'\nptxas info    : Function properties for k\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 8 registers{}\n"
)


@pytest.mark.parametrize("clause", ["3 uniform lanes", "12 bytes tmem", "5 cluster slots"])
def test_a_clause_of_a_later_release_is_kept_and_reported(clause: str) -> None:
    for text in (BLOCK.format(f", {clause}"), BLOCK.format(f", used 1 barriers, {clause}, 16 bytes smem")):
        found = read_log(text)
        (kernel,) = found.kernels
        assert kernel.usage.unknown_clauses == (clause,)
        assert kernel.usage.registers == 8
        assert "unknown-clause" in [issue.code for issue in found.issues]


@pytest.mark.parametrize("line", ["Tensor memory of k: 12 columns", "Function attributes for k"])
def test_a_value_of_a_later_release_is_kept_and_reported(line: str) -> None:
    (issue,) = read_log(f"{BLOCK.format('')}ptxas info    : {line}\n").issues
    assert line in issue.message
    assert "registers" in issue.hidden


def test_every_message_that_a_tool_was_made_to_print_is_met() -> None:
    """Each alternative of the message rule occurs in a fixture, but those marked as seen in the tool's strings only."""
    source = grammar.text("ptxas")
    bodies = re.search(r"^_body: _resources(.*?)\n\n_resources: (.*?)\n\n", source, re.MULTILINE | re.DOTALL)
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
    """The rule that describes a line."""
    body = re.sub(r"^ptxas .*?(?:info|warning|error|fatal) *: (?:\(C\d+\) )?", "", line)
    found = grammar.parse("ptxas", "line" if body == line else "body", body)
    return {found[0]} if found else set()


def test_kinds_of_notes_are_rules_of_the_grammar() -> None:
    from spillscan.judging.rules.messages import WARNINGS

    rules = {str(rule.origin.name) for rule in grammar.load("ptxas").rules}
    assert set(WARNINGS) <= rules
    assert set(_NO_USE) <= rules


def test_compiled_files_equal_the_output_of_make_grammar() -> None:
    code = "from spillscan.reading.grammar import compiled; print(repr(dict(compiled())))"
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "0"}, capture_output=True, check=True, text=True
    )
    kept = {path.name: path.read_bytes() for path in Path(grammar.COMPILED).iterdir()}
    assert ast.literal_eval(ran.stdout) == kept, "make grammar"


@pytest.mark.parametrize("name", grammar.PARSED)
def test_a_saved_parser_is_as_a_composed_one(name: str) -> None:
    saved, composed = grammar.load(name), grammar.compose(name)
    assert saved.rules == composed.rules
    assert [(each.name, each.pattern.to_regexp(), each.priority) for each in saved.terminals] == [
        (each.name, each.pattern.to_regexp(), each.priority) for each in composed.terminals
    ]


def test_a_parser_of_another_release_is_composed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    composed: list[str] = []
    monkeypatch.setattr(grammar, "compose", composed.append)
    grammar.load.__wrapped__("usage")
    assert composed == []
    monkeypatch.setattr(grammar, "stamp", lambda name: "another")
    grammar.load.__wrapped__("usage")
    assert composed == ["usage"]
