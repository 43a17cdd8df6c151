"""Each rule of the grammars of machine code parses the example lines above it, in the context of a disassembly."""

from __future__ import annotations

import re

import pytest

from spillscan.reading import grammar

STRUCTURE = {
    "sass": {"disassembly", "body", "lines", "blank"},
    "nvdisasm": {"text", "live", "columns"},
    "res_usage": {"text", "member", "image", "underline", "field", "compressed"},
}
"""Rules that are no line with fields of its own: whole texts, and what sass.lark shows already."""


def rules(name: str) -> dict[str, list[str]]:
    """Each rule with the examples right above it."""
    found: dict[str, list[str]] = {}
    above: list[str] = []
    for line in grammar.text(name).splitlines():
        if line.startswith("// "):
            above.append(line.removeprefix("// "))
        else:
            if match := re.match(r"([a-z]\w*)\s*:", line):
                found[match[1]] = above
            above = []
    return found


CASES = [(name, rule) for name in STRUCTURE for rule in rules(name) if rule not in STRUCTURE[name]]


def forms(example: str) -> list[bytes]:
    """An example with the line ends and the tabs that an editor may have made blanks of."""
    tabbed = re.sub(r"^ {8}(?! *[/\[(@`])", "\t\t", example)
    single = re.sub(r"^ {1,4}(?=\S)", "\t", example)
    return [(each + "\n").encode() for each in (example, tabbed, single, re.sub(r"(?<=\S) {4,}(?=\S)", "\t", single))]


@pytest.mark.parametrize(("name", "rule"), CASES)
def test_an_example_is_parsed_by_its_rule(name: str, rule: str) -> None:
    examples = rules(name)[rule]
    assert examples, f"no line shows what {rule} reads"
    line = grammar.line(rule, name)
    found = line.search if rule == "address" else line.match  # an address is among the operands
    assert any(found(form) for example in examples for form in forms(example)), examples
