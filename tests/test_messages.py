"""Messages speak with one voice: where, what is wrong, what to do; short, without a full stop, in plain words."""

from __future__ import annotations

import re

import pytest

from tests.messages import PLACEHOLDER, Message, messages

MOST = 200
"""Characters of fixed text: two lines."""
NAMES = re.compile(r"CMake|CUDA|Nsight|SQL|PTX|SM\b|NUL|GPU|HEAD|SOURCE_DATE_EPOCH|KERNEL|OLD|INPUT|[A-Z]+[_=.]|__|# ")
"""Texts that begin with a capital: names, or comments of a written file."""
OWN = re.compile(
    r"\b(told|grave|somebody|foreman|knots?|rooms?|house|stands?|(?<!there )is no (?!longer)|wanted"
    r"|leave .{1,40} away|for ever|twice as)\b"
)
"""Words that are ours and not the field's, with standard ones instead: reported, severe, package, fix, is, is not a."""
OF_INPUT = {"UsageError", "InputError", "SpillscanError", "UndecidedError", "StoreError", "NoBuildError", "error"}
SAYS_HOW = re.compile(rf"\bmust\b|; |\bneeds\b|\bexpected\b|: {PLACEHOLDER}$")
"""What to do, within what is wrong: what a value must be; the reason of a system or a library behind the last colon."""


def broken(message: Message) -> list[str]:
    """The rules that a message breaks."""
    fixed = [part.replace(PLACEHOLDER, "") for part in (message.text, message.hint)]
    title = message.kind == "title"
    found = {
        "longer than two lines": sum(map(len, fixed)) > MOST + 100 * title or "\n" in message.text,
        "ends with a full stop": any(
            re.search(r"[^.]\.$", part) and not part.startswith("# ") for part in fixed[: 1 if title else 2]
        ),
        "begins with a capital": not title and bool(re.match(r"[A-Z][a-z]", fixed[0]) and not NAMES.match(fixed[0])),
        "says it in words of our own": any(map(OWN.search, (message.text, message.hint))),
        "does not say what to do": message.kind in OF_INPUT and not message.hint and not SAYS_HOW.search(message.text),
    }
    return [rule for rule, is_broken in found.items() if is_broken]


def test_messages_speak_with_one_voice() -> None:
    found = ((each, broken(each)) for each in messages())
    wrong = [f"{each.place}: {', '.join(rules)}: {each.text} ⇒ {each.hint}" for each, rules in found if rules]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("message", "rules"),
    [
        (Message("a.py:1", "UsageError", "-j must be 1 or more"), []),
        (Message("a.py:1", "InputError", "cannot read {…}: {…}"), []),
        (Message("a.py:1", "InputError", "no kernel in {…}", "give its log"), []),
        (Message("a.py:1", "InputError", "no kernel in {…}"), ["does not say what to do"]),
        (Message("a.py:1", "line", "Nothing was found"), ["begins with a capital"]),
        (Message("a.py:1", "issue", "the log is cut off."), ["ends with a full stop"]),
        (Message("a.py:1", "help", "x" * 201), ["longer than two lines"]),
        (Message("a.py:1", "line", "two rooms"), ["says it in words of our own"]),
    ],
)
def test_the_rules_tell_messages_apart(message: Message, rules: list[str]) -> None:
    assert broken(message) == rules


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("UsageError", "no INPUT"),
        ("issue", "not understood"),
        ("line", "{…} B stores, {…} B loads"),
        ("help", "only this arch"),
        ("title", "The kernel spills registers to local memory"),
    ],
)
def test_each_kind_of_message_is_found(kind: str, part: str) -> None:
    assert any(each.kind == kind and part in each.text for each in messages())
