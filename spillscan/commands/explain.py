"""Explain a rule, or a kind of hole: what it means, what to do, how to tune or accept it. Without one, list all."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

from spillscan.errors import UsageError
from spillscan.output.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillscan.model import Rule
    from spillscan.model.holes import IssueKind

NAME = "explain"
HELP = "explain a rule or a hole, or list all"
ORDER = 50
EPILOG = "Example: spillscan explain spill"

WIDTH = 100
"""Columns of running text."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "rule", nargs="?", metavar="RULE|HOLE", help="what stands in brackets behind a finding or a hole"
    )


def run(arguments: argparse.Namespace) -> int:
    """0; an unknown name is exit 2, with the nearest that there is."""
    from spillscan.errors import nearest
    from spillscan.model.holes import KINDS
    from spillscan.rules import all_rules

    rules = all_rules()
    if arguments.rule is None:
        width = max(map(len, (*rules, *KINDS)))
        say(f"{rule.id:{width}}  {rule.severity:7}  {rule.title}" for rule in rules.values())
        say(f"{each.code:{width}}  {'hole' if each.hides else 'issue':7}  {each.title}" for each in KINDS.values())
        return 0
    wanted = arguments.rule.strip("[]")
    if wanted in rules:
        say(lines(rules[wanted]))
    elif wanted in KINDS:
        say(kind_lines(KINDS[wanted]))
    else:
        raise UsageError(f"there is no rule or hole {wanted[:60]!r}", nearest(wanted, (*rules, *KINDS)))
    return 0


def kind_lines(kind: IssueKind) -> Iterator[str]:
    """What there is to say of a kind of issue, for a terminal."""
    yield from textwrap.wrap(f"{kind.code}: {kind.title}", WIDTH, break_on_hyphens=False)
    yield f"may hide {', '.join(kind.hides)}" if kind.hides else "hides nothing that a gate judges"
    for heading, text in (("What it means", kind.means), ("What to do", kind.remedy)):
        yield ""
        yield heading
        yield from textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    if kind.hides:
        yield ""
        yield "How to accept it, in spillscan.yaml (once: --accept " + kind.code + "[=GLOB])"
        yield from (f"  {line}" for line in acceptance(kind))


def acceptance(kind: IssueKind) -> tuple[str, ...]:
    """A piece of a policy file that accepts holes of ``kind`` for some kernels or inputs."""
    return ("accept:", f"  - hole: {kind.code}", '    match: "third_party/*"', '    reason: "why"')


def lines(rule: Rule) -> Iterator[str]:
    """What there is to say of ``rule``, for a terminal."""
    yield from textwrap.wrap(f"{rule.id}: {rule.title}", WIDTH, break_on_hyphens=False)
    yield f"{rule.severity}; judges {' and '.join(f'a {judged}' for judged in rule.judges)}"
    for heading, text in (
        ("What it means", rule.means),
        ("Why it matters", rule.matters),
        ("What to do", rule.remedy),
        ("How to tune it", rule.tuning),
    ):
        yield ""
        yield heading
        yield from textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    yield ""
    yield "How to suppress it, or make it milder or more severe, in spillscan.yaml"
    for line in suppression(rule):
        yield f"  {line}"
    yield ""
    yield "Until a day only: `suppressions` of the baseline (spillscan baseline write makes one)"


def suppression(rule: Rule) -> tuple[str, ...]:
    """A piece of a policy file that turns ``rule`` off for some kernels."""
    other = "warning" if rule.severity == "error" else "error"
    return (
        "severity:",
        f"  {rule.id}: {other}  # for all kernels, as --severity does",
        "kernels:",
        '  - match: "attention::*"',
        f"    severity: {{{rule.id}: off}}",
        '    reason: "why"',
    )
