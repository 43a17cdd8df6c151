"""Print the policy in force: options override spillscan.yaml, which overrides the defaults.

The output is a policy file. With --kernel, print the values for one kernel.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spillscan.commands import _options, _policy
from spillscan.judging.policy.effective import DEFAULT, Override, Policy, Setting
from spillscan.judging.policy.file import KEYS, LIMITS, LaunchEntry, default_of, words
from spillscan.judging.rules import all_rules
from spillscan.model import Kernel, KernelKey, Launch, Rule, Usage
from spillscan.output.errors import UsageError
from spillscan.output.terminal import say

EPILOG = "Example: spillscan config --with origins"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_with(parser, {"origins": "also print where values are set: file and line, option, or default"})
    parser.add_argument("--kernel", metavar="SYMBOL", help="print the values for this kernel")
    parser.add_argument("--arch", metavar="ARCH", help="arch of that kernel, such as sm_90a")
    _policy.add_fail_on(parser)
    _policy.add_severity(parser)
    _options.add_launches(parser)
    _policy.add_file(parser)


def run(arguments: argparse.Namespace) -> int:
    """Return 0; exit status 2 on an error in the policy."""
    policy = _policy.policy_of(arguments)
    rules, origins = list(all_rules().values()), "origins" in arguments.also
    lines = listed(policy, rules, origins=origins)
    if name := arguments.kernel:
        if not set(name).isdisjoint("<(:* "):
            raise UsageError(f"--kernel: {name[:60]!r} is not a symbol", "pass the mangled name (see `scan -f csv`)")
        key = KernelKey(symbol=name, arch=arguments.arch)
        lines = listed_for(policy, Kernel(key=key, role="entry", usage=Usage()), rules, origins=origins)
    say(lines)
    return 0


# A policy as text that is itself a policy file, optionally with the origin of each value. Pure.

_Line = tuple[str, str]
"""(text, origin)."""


def listed(policy: Policy, rules: Sequence[Rule], *, origins: bool) -> Iterator[str]:
    """Lines of the policy in force; reading them as a file gives the same policy."""
    lines = [_setting(name, policy.setting(name)) for name in KEYS]
    lines += _severities(rules, [layer.settings for layer in policy.layers])
    accepted = [each for layer in policy.layers for each in layer.accept]
    lines += [("accept:", "")] if accepted else []
    for each in accepted:
        parts = {"rule": each.rule, "gap": each.gap, "kernel": each.kernel, "reason": each.reason}
        fields = [f"{name}: {_quoted(value)}" for name, value in parts.items() if value]
        fields += [f"arch: {_value(words(each.arch))}"] * (each.arch != "*")
        fields += [f"until: {each.until}"] * bool(each.until)
        lines.append((f"  - {{{', '.join(fields)}}}", each.origin))
    lines += [("renamed:", "")] if policy.renamed else []
    lines += [(f"  {_quoted(old)}: {_quoted(new)}", "") for old, new in policy.renamed]
    entries = [line for entry in policy.in_force() for line in _entry(entry)]
    lines += [("kernels:", ""), *entries] if entries else []
    return _aligned(lines, origins)


def listed_for(policy: Policy, kernel: Kernel, rules: Sequence[Rule], *, origins: bool) -> Iterator[str]:
    """Lines of the values for one kernel, as in :func:`listed`."""
    settings = policy.settings_of(kernel)
    lines = [_setting(name, settings.get(name, Setting(default_of(name), DEFAULT))) for name in LIMITS]
    if launch := settings.get("launch"):
        lines.append((f"launch: {_launch(launch.value)}", launch.origin))
    return _aligned(lines + _severities(rules, [settings]), origins)


def _setting(name: str, setting: Setting) -> _Line:
    if name not in LIMITS and setting.value in (None, ()):
        return f"# {name}: not set", setting.origin
    return f"{name}: {_value(setting.value)}", setting.origin


def _severities(rules: Sequence[Rule], layers: Sequence[Mapping[str, Setting]]) -> list[_Line]:
    settings = {name: setting for layer in layers for name, setting in layer.items()}
    lines: list[_Line] = [("severity:", "")]
    for rule in rules:
        setting = settings.get(rule.id, Setting(rule.severities, DEFAULT))
        own = "# " if rule.least and rule.id not in settings else ""  # the default severity depends on the effect
        lines.append((f"  {own}{rule.id}: {setting.value}", setting.origin))
    return lines


def _entry(entry: Override) -> Iterator[_Line]:
    lines: list[_Line] = [
        (f"{name}: {_value(patterns)}", entry.origin)
        for name, patterns in (("match", entry.match), ("arch", entry.arch), ("unit", entry.unit))
        if patterns
    ]
    settings = entry.settings
    lines += [(f"{name}: {_value(settings[name].value)}", settings[name].origin) for name in LIMITS if name in settings]
    levels = [(f"  {rule}: {settings[rule].value}", settings[rule].origin) for rule in all_rules() if rule in settings]
    lines += [("severity:", ""), *levels] if levels else []
    if entry.launch:
        lines.append((f"launch: {_launch(entry.launch.value)}", entry.launch.origin))
    if entry.reason:
        lines.append((f"reason: {_value(entry.reason)}", entry.origin))
    for number, (text, origin) in enumerate(lines):
        yield ("  - " if number == 0 else "    ") + text, origin


def _launch(launch: Launch) -> str:
    values = {name: getattr(launch, name) for name in launch.__struct_fields__ if name in LaunchEntry.__struct_fields__}
    fields = [f"{name}: {value}" for name, value in values.items() if value != {"cluster_blocks": 1}.get(name)]
    fields += ["override: true"] * (launch.source == "override")
    return "{" + ", ".join(fields) + "}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_quoted, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(value) if isinstance(value, str) and not value.isidentifier() else str(value)


def _quoted(text: str) -> str:
    """A double-quoted YAML string; unprintable characters are escaped."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in plain)


def _aligned(lines: Sequence[_Line], origins: bool) -> Iterator[str]:
    width = max(len(text) for text, _ in lines if len(text) <= 60)
    for text, origin in lines:
        yield f"{text:{width}}  # {origin}" if origins and origin else text
