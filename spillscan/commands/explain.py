"""Explain a rule or a gap: what it means, and what to do. Without an argument, list all of them.

`explain devices` lists all devices, `explain metrics` all metrics. -f applies only to these two.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Sequence

from spillscan.commands import _answers, _options
from spillscan.judging.rule_docs import Explanation, explanations
from spillscan.judging.rules import all_rules, checks
from spillscan.model import Rule, metrics
from spillscan.model.gaps import KINDS, may_hide
from spillscan.occupancy.data import device_data
from spillscan.occupancy.devices import Device, device, devices, sources
from spillscan.occupancy.text import DEVICE_HEADS, DEVICE_LEGEND, device_lines, device_row
from spillscan.output.errors import UsageError, nearest
from spillscan.output.terminal import PLAIN_WIDTH, Style, say, style_of, table, wrapped

EPILOG = "Example: spillscan explain spill"

WIDTH = 100
"""Width of running text in columns."""
_SPARE = ("regs/block", "barriers")
"""Columns of the device table to hide on a narrow terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "rule",
        nargs="?",
        metavar="RULE|GAP|devices|metrics",
        help="name in brackets after a finding or a gap; or the word `devices` or `metrics`",
    )
    parser.add_argument(
        "device", metavar="DEVICE", nargs="?", help="with `devices`: only this device, such as sm_90, 9.0 or H100"
    )
    _options.add_formats(parser, "text", "json")


def run(arguments: argparse.Namespace) -> int:
    """Return 0; exit status 2 for an unknown name, with the nearest known one."""
    if arguments.device and arguments.rule != "devices":
        raise UsageError(f"unexpected argument {arguments.device[:60]!r}", "only `explain devices` accepts DEVICE")
    if arguments.rule == "devices":
        return _devices(arguments)
    if arguments.rule == "metrics":
        return _metrics(arguments)
    if arguments.format:
        raise UsageError("-f applies only to `explain devices` and `explain metrics`", "leave -f out")
    rules, about_rules, about_kinds = all_rules(), explanations("rules"), explanations("gaps")
    names = (*rules, *KINDS)
    if arguments.rule is None:
        width = max(map(len, names))
        rows = [(name, rule.severities, about_rules[name].title) for name, rule in rules.items()]
        rows += [(code, "gap" if may_hide(code) else "issue", about_kinds[code].title) for code in KINDS]
        texts = (f"{name:{width}}  {kind:16}  {title}" for name, kind, title in rows)
        say(wrapped(texts, style_of(), indent=width + 20))
        return 0
    wanted = arguments.rule.strip("[]")
    if wanted not in names:
        raise UsageError(f"unknown rule or gap {wanted[:60]!r}", nearest(wanted, names) or "see `spillscan explain`")
    if wanted in rules:
        say(lines(rules[wanted], about_rules[wanted]))
    else:
        say(kind_lines(wanted, about_kinds[wanted]))
    return 0


_SUBJECTS = {"build": "single builds", "change": "changes between two builds"}


def lines(rule: Rule, about: Explanation) -> Iterator[str]:
    """Text about ``rule``, for a terminal."""
    subjects = " and ".join(_SUBJECTS[scope] for each in checks() if each.rule == rule for scope in each.scopes)
    yield from _explained(rule.id, about, f"severity: {rule.severities}; checks {subjects}")
    yield ""
    yield "How to suppress this rule or change its severity in spillscan.yaml"
    yield from (f"  {line}" for line in suppression(rule))
    yield ""
    yield from wrapped(["To accept its findings until a date, use an `accept` entry with `until`."], style_of())


def kind_lines(code: str, about: Explanation) -> Iterator[str]:
    """Text about a kind of issue, for a terminal."""
    hides = ", ".join(may_hide(code))
    yield from _explained(code, about, f"gap: may hide {hides}" if hides else "issue: hides nothing that a gate checks")
    if hides:
        yield ""
        yield f"How to accept this gap in spillscan.yaml (for one call: --accept {code}[=GLOB])"
        yield from ("  accept:", f"    - gap: {code}", '      kernel: "third_party/*"', '      reason: "why"')


def _explained(name: str, about: Explanation, facts: str) -> Iterator[str]:
    width = min(WIDTH, style_of().width)
    for text in (f"{name}: {about.title}", facts):
        yield from textwrap.wrap(text, width, break_on_hyphens=False)
    for heading, text in about.parts.items():
        yield ""
        yield heading
        yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def suppression(rule: Rule) -> tuple[str, ...]:
    """Excerpt of a policy file that turns ``rule`` off for some kernels."""
    other = "warning" if rule.severity == "error" else "error"
    return (
        "severity:",
        f"  {rule.id}: {other}  # all kernels (for one call: --severity {rule.id}={other})",
        "kernels:",
        '  - match: "attention::*"',
        f"    severity: {{{rule.id}: off}}",
        '    reason: "why"',
    )


# ---- devices ------------------------------------------------------------------------------------------------------


def _devices(arguments: argparse.Namespace) -> int:
    """Print the device table, or one device with the source of each value."""
    chosen = [device(arguments.device)] if arguments.device else list(devices())
    _answers.answer(
        _answers.forms_of(arguments),
        text=lambda style: wrapped(device_lines(chosen[0]), style) if arguments.device else _table(chosen, style),
        json=lambda: {"devices": [device_data(one) for one in chosen], "sources": dict(sources())},
    )
    return 0


# ---- metrics ------------------------------------------------------------------------------------------------------


def _metrics(arguments: argparse.Namespace) -> int:
    """Print the names of metrics, as in --sort, --metric, JSON and SQL, with units and meanings."""
    width = max(len(each.name) for each in metrics.METRICS)
    rows = [{"name": each.name, "unit": each.unit, "meaning": each.about} for each in metrics.METRICS]
    _answers.answer(
        _answers.forms_of(arguments),
        text=lambda style: wrapped((f"{each['name']:{width}}  {each['meaning']}" for each in rows), style, width + 2),
        json=lambda: {"metrics": rows},
    )
    return 0


def _table(chosen: Sequence[Device], style: Style) -> Iterator[str]:
    """Device table, one line per device. A narrow terminal gets one GPU per device, and no columns that seldom
    differ."""
    rows = [(device_row(device, 2 if style.width >= PLAIN_WIDTH else 1), "") for device in chosen]
    yield from table(DEVICE_HEADS, rows, style, ("arch", "generation", "GPUs"), _SPARE)
    yield from wrapped([DEVICE_LEGEND], style)
