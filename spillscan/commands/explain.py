"""Explain a rule: what it means, why it matters, what to do, how to tune or suppress it. Without RULE, list all."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

from spillscan.commands import _common
from spillscan.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillscan.model import Rule

NAME = "explain"
HELP = "explain a rule, or list all"
ORDER = 50
EPILOG = "Example: spillscan explain spill"

WIDTH = 100
"""Columns of running text."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("rule", nargs="?", metavar="RULE", help="what stands in brackets behind a finding")


def run(arguments: argparse.Namespace) -> int:
    """0; an unknown rule is exit 2, with the nearest that there is."""
    from spillscan.errors import nearest
    from spillscan.rules import all_rules

    rules = all_rules()
    if arguments.rule is None:
        width = max(map(len, rules))
        for rule in rules.values():
            _common.say(f"{rule.id:{width}}  {rule.severity:7}  {rule.title}")
        return 0
    wanted = arguments.rule.strip("[]")
    if wanted not in rules:
        raise UsageError(f"there is no rule {wanted[:60]!r}", nearest(wanted, rules))
    _common.say("\n".join(lines(rules[wanted])))
    return 0


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
    yield "How to suppress it, or make it milder or graver, in spillscan.yaml"
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
