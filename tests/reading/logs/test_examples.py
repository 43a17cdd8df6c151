"""Each example line above a grammar rule is read by that rule, through the reader of logs; each rule has one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spillscan.reading import grammar
from spillscan.reading.logs.messages import Torn, Unknown
from spillscan.reading.logs.parsing import _clause, message
from spillscan.reading.logs.steps import parse_step, split_prefix
from tests.conftest import ROOT, read_log

IN_STRINGS = "(in the tool's strings) "
"""Before a line that no run could be made to print: the text stands in the tool, and has no head."""
_REMARK = re.compile(r" {4,}\(.*\)$")
TOOLS = {"ptxas": ("ptxas", "body"), "nvlink": ("nvlink", "body")}


def examples(name: str, source: str = "") -> dict[str, list[str]]:
    """The lines above each rule of a grammar that describes messages."""
    found: dict[str, list[str]] = {}
    above: list[str] = []
    for line in (source or grammar.text(name)).splitlines():
        if line.startswith("// ") and not line.startswith("// ----"):
            above.append(_REMARK.sub("", line.removeprefix("// ")))
        elif rule := re.match(r"([a-z][a-z_]*)(?:\.-?\d+)?: ", line):
            found.setdefault(rule[1], []).extend(above)
            above = []
        else:
            above = []
    return found


def rules(name: str, start: str) -> set[str]:
    """Alternatives of ``start``."""
    chosen: set[str] = set()
    left = [start]
    expansions: dict[str, list[list[str]]] = {}
    for rule in grammar.load(name).rules:
        expansions.setdefault(str(rule.origin.name), []).append([str(each.name) for each in rule.expansion])
    while left:
        for expansion in expansions[left.pop()]:
            (left.append if expansion[0].startswith("_") else chosen.add)(expansion[0])
    return chosen


def rule_of(line: str, name: str, start: str) -> str:
    """The rule that reads ``line``, as the reader of logs finds it; empty: none."""
    line = split_prefix(line)[1]
    if name in TOOLS:
        parsed = message(line)
        if parsed is None or isinstance(parsed, Torn | Unknown):
            return ""
        if line.startswith((" ", "ptxas   ")):
            return (grammar.parse(name, "line", line) or ("", {}))[0]
        line = re.sub(r"^.*?(?:info|warning|error|fatal) *: (?:\(C\d+\) )?", "", line, count=1)
        line = re.sub(r" \(target: \w+\)$", "", line) if name == "nvlink" else line
    return (grammar.parse(name, start, line) or ("", {}))[0]


def cases() -> list[tuple[str, str, str, str]]:
    """(grammar, start, rule, line)."""
    found = []
    for name, start in (*TOOLS.values(), ("buildstep", "line"), ("buildfailure", "line"), ("buildfailure", "last")):
        wanted = rules(name, start) | ({"stack"} if name == "ptxas" else set())
        for rule, lines in examples(name).items():
            for line in lines if rule in wanted else ():
                if line.startswith(IN_STRINGS):
                    found.append((name, start, rule, f"ptxas info    : {line.removeprefix(IN_STRINGS)}"))
                elif not line.startswith("("):
                    found.append((name, start, rule, line))
    return found


CASES = cases()
WITHOUT_EXAMPLE = {"unknown", "performance_loss"}
"""Rules for text that no other rule describes: such a line was never seen."""


@pytest.mark.parametrize(("name", "start", "rule", "line"), CASES)
def test_a_line_is_read_by_the_rule_below_it(name: str, start: str, rule: str, line: str) -> None:
    assert rule_of(line, name, start) == rule


@pytest.mark.parametrize(("name", "start"), [*TOOLS.values(), ("buildstep", "line"), ("buildfailure", "line")])
def test_every_rule_is_reached_by_an_example(name: str, start: str) -> None:
    reached = {rule_of(line, each, at) for each, at, _, line in CASES if (each, at) == (name, start)}
    assert not rules(name, start) - reached - WITHOUT_EXAMPLE


@pytest.mark.parametrize("line", [case[3] for case in CASES if case[0] in TOOLS])
def test_no_example_is_a_gap(line: str) -> None:
    """A line that is understood is neither torn nor without a kernel."""
    codes = {issue.code for issue in read_log(f"noise\n{line}\n").issues}
    assert not codes & {"torn-line", "unknown-line", "unread-spill-warning"}


def test_the_next_terminal_of_a_rule_ends_a_name() -> None:
    name = "void f<'x', (lambda 'y')>(int, char)"
    for text in (
        f"Registers are spilled to local memory in function '{name}', 780 bytes spill stores, 820 bytes spill loads",
        f"Registers are spilled to local memory in function '{name}'",
        f"Function '{name}' is recursive",
    ):
        found = grammar.parse("ptxas", "body", text)
        assert found is not None
        assert found[1]["QUOTED_SYMBOL"] == name


def test_clauses_are_read_by_their_rules() -> None:
    known = {"used 0 barriers": "barriers", "520 bytes cumulative stack size": "cumulative_stack", "40 stack": "stack"}
    known |= {"16 bytes smem": "shared", "360 bytes cmem[0]": "constant", "4+0 bytes lmem": "local"}
    known |= {"1 textures": "textures", "1 surfaces": "surfaces", "1 samplers": "samplers", "7 new things": "other"}
    known |= {
        "8 bytes stack frame": "frame",
        "4 bytes spill stores": "spill_stores",
        "8 bytes spill loads": "spill_loads",
    }
    assert {text: (_clause(f" {text}") or ("",))[0] for text in known} == known
    assert set(known.values()) == rules("usage", "clause")


def test_a_performance_loss_for_another_reason_is_read() -> None:
    assert (
        rule_of("ptxas info    : Potential Performance Loss: the moon is full", "ptxas", "body") == "performance_loss"
    )


def test_steps_are_read_by_their_rules() -> None:
    for line in (line for name, _, _, line in CASES if name == "buildstep"):
        assert parse_step(split_prefix(line)[1]) is not None, line


# ---- a new message ------------------------------------------------------------------------------------------------

NEW_LINE = "ptxas warning : Kernel 'f(int, 'x')' wants 3 more tensor slots than there are"
NEW_RULE = 'tensor_slots: "Kernel \'" QUOTED_SYMBOL "\' wants " NUMBER " more tensor slots than there are"'
READ = """
import sys
from spillscan.reading import grammar
from tests.reading.logs import test_examples as examples
found = examples.examples("ptxas")["tensor_slots"]
assert found == [sys.argv[1]], found
print([examples.rule_of(line, "ptxas", "body") for line in found], sorted(examples.rules("ptxas", "body") - {
    examples.rule_of(line, name, start) for name, start, _, line in examples.CASES}))
"""


def with_rule(folder: Path, rule: str, line: str) -> str:
    """Result of the contract with one more grammar rule: the rule that reads its line, and unreachable rules."""
    for each in ("spillscan", "tests", "fixtures"):
        (folder / each).symlink_to(ROOT / each)
    shutil.copytree(ROOT / "grammars", folder / "grammars")
    file = folder / "grammars" / "ptxas.lark"
    text = file.read_text(encoding="utf-8").replace("     | spill_warning |", "     | tensor_slots | spill_warning |")
    file.write_text(text.replace("// ---- terminals", f"// {line}\n{rule}\n\n// ---- terminals", 1), encoding="utf-8")
    command = [sys.executable, "-c", READ, line]
    environment = {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(folder), "PATH": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_new_message_needs_its_rule_and_a_line_only(tmp_path: Path) -> None:
    assert with_rule(tmp_path, NEW_RULE, NEW_LINE) == "['tensor_slots'] ['performance_loss', 'unknown']"


def test_a_rule_that_never_matches_is_seen(tmp_path: Path) -> None:
    wrong = NEW_RULE.replace("wants", "needs")
    assert with_rule(tmp_path, wrong, NEW_LINE) != "['tensor_slots'] ['performance_loss', 'unknown']"
