"""Machine code: its size against a limit and an older build, and whether it differs from before or is gone."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.rules._declared import Check, Found, Terms, threshold
from spillscan.model import Change, Limit, Rule
from spillscan.model.metrics import value_of
from spillscan.output.nouns import sizes

MAX_GROWTH = Limit("max_code_growth_percent", "change")
SIZE = Rule("code-size", "error", needs=("code",), limits=(Limit("max_code_bytes", "build"),))
GROWTH = Rule("code-growth", "error", needs=("code",), limits=(MAX_GROWTH,), recorded_as="code-size")
OTHER = Rule("other-code", "note", needs=("code",))
REMOVED = Rule("kernel-removed", "note")
_SILENT = "no input contains machine code; pass the binary"


def _sizes(change: Change) -> tuple[int | None, int | None]:
    before, after = (None if each is None else value_of("code_bytes", each) for each in (change.before, change.after))
    return before, after


def _grown(change: Change, terms: Terms) -> Iterator[Found]:
    most, (before, after) = terms.limit(MAX_GROWTH), _sizes(change)
    if most is not None and before is not None and after is not None and 100 * (after - before) > most * before:
        percent = f"+{100 * (after - before) / before:.0f}%" if before else "from nothing"
        was, now = sizes(before, after)
        yield Found(f"has more machine code: {was} → {now} ({percent}, {most}% allowed)")


def _growth_unknown(change: Change, terms: Terms) -> str:
    return _SILENT if change.before is not None and change.after is not None and None in _sizes(change) else ""


def _other(change: Change, terms: Terms) -> Iterator[Found]:
    """Both codes were compared (``diff --with code``), and differ."""
    if change.code == "differs":
        yield Found(f"has different machine code: {change.code_reason}")


def _not_compared(change: Change, terms: Terms) -> str:
    if change.code != "not compared" or change.kernel.caller:
        return ""
    return f"machine code not compared: {change.code_reason}"


def _removed(change: Change, terms: Terms) -> Iterator[Found]:
    if change.state == "removed":
        yield Found("was removed")


CHECKS = (
    threshold(
        SIZE,
        lambda kernel, _: value_of("code_bytes", kernel),
        key="bytes",
        message=lambda kernel, terms, value, most: "has {} of machine code, {} allowed".format(*sizes(value, most)),
        unknown=lambda kernel, _: _SILENT if value_of("code_bytes", kernel) is None else "",
        linked=False,
    ),
    Check(rule=GROWTH, find_change=_grown, unknown_change=_growth_unknown),
    Check(rule=OTHER, find_change=_other, unknown_change=_not_compared),
    Check(rule=REMOVED, find_change=_removed),
)
