"""Values as words: of environment variables and options."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import cast

from spillscan.errors import UsageError
from spillscan.policy.document import nearest
from spillscan.policy.keys import KEYS, LARGEST, LEVELS, PREFIX, Key, Value
from spillscan.policy.launches import parse_launch
from spillscan.policy.layers import Entry, Layer, Setting
from spillscan.policy.patterns import compiled
from spillscan.policy.severity import Level

CONFIG = PREFIX + "CONFIG"
"""Variable that names the policy file."""
SEVERITY = PREFIX + "SEVERITY"
"""Variable with ``RULE=LEVEL``, separated by commas."""

_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def value(key: Key, text: str) -> Value:
    """What ``text`` says for ``key``; :class:`~spillscan.errors.UsageError` where it cannot."""
    if key.kind in ("limit", "count"):
        if key.kind == "limit" and text == "none":
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > LARGEST:
            also = " or none" if key.kind == "limit" else ""
            raise UsageError(f"a whole number of 0 or more{also} is wanted, not {text[:60]!r}")
        return int(text)
    if key.kind == "flag":
        if text.lower() not in _TRUTH:
            raise UsageError(f"true or false is wanted, not {text[:60]!r}")
        return _TRUTH[text.lower()]
    if key.kind == "names":
        return tuple(word.strip() for word in text.split(",") if word.strip())
    if key.kind == "choice" and text not in key.choices:
        raise UsageError(f"{', '.join(key.choices[:-1])} or {key.choices[-1]} is wanted, not {text[:60]!r}")
    return text


def level(text: str, rules: Collection[str]) -> tuple[str, Level]:
    """``RULE=LEVEL`` as (rule id, level)."""
    rule, equals, word = (part.strip() for part in text.partition("="))
    if not equals or word not in LEVELS:
        raise UsageError(f"{text[:60]!r} sets no severity", f"write RULE=LEVEL, LEVEL one of {', '.join(LEVELS)}")
    if rule not in rules:
        raise UsageError(f"unknown rule {rule[:60]!r}", nearest(rule, rules))
    return rule, cast(Level, word)


def from_environment(variables: Mapping[str, str], rules: Collection[str]) -> Layer:
    """What the environment says; an empty variable says nothing.

    A variable that is called almost like one of ours is an error: its writer believes that it holds.
    """
    ours = {key.variable: key for key in KEYS.values()}
    settings: dict[str, Setting[Value]] = {}
    levels: dict[str, Setting[Level]] = {}
    for name in sorted(variables):
        text = variables[name].strip()
        if not name.startswith(PREFIX) or not text or name == CONFIG:
            continue
        try:
            if name in ours:
                settings[ours[name].name] = Setting(value(ours[name], text), name)
            elif name == SEVERITY:
                pairs = [level(part, rules) for part in text.split(",")]
                levels = {rule: Setting(word, name) for rule, word in pairs}
            elif near := difflib.get_close_matches(name, (*ours, SEVERITY, CONFIG), n=1, cutoff=0.85):
                raise UsageError("no such variable", f"did you mean {near[0]}?")
        except UsageError as error:
            raise UsageError(f"{name}: {error.what}", error.hint) from None
    return Layer(settings=settings, levels=levels)


def from_options(
    texts: Mapping[str, str], severities: Collection[str], launches: Collection[str], rules: Collection[str]
) -> Layer:
    """What the command line says: words by key, and ``--severity`` and ``--launch`` as written."""
    pairs = [level(text, rules) for text in severities]
    entries = []
    for text in launches:
        pattern, launch = parse_launch(text)
        compiled(pattern)
        entries.append(Entry(match=(pattern,), launch=Setting(launch, "--launch"), origin="--launch"))
    return Layer(
        settings={name: Setting(value(KEYS[name], text), KEYS[name].option) for name, text in texts.items()},
        levels={rule: Setting(word, "--severity") for rule, word in pairs},
        entries=tuple(entries),
    )
