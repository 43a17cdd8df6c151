"""``docs/rules.md`` is what the rules say of themselves. ``python -m tests.test_rules_docs`` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan import rules
from spillscan.commands.explain import suppression
from spillscan.model import Rule
from tests.conftest import ROOT

DOCUMENT = ROOT / "docs" / "rules.md"


def test_the_document_is_what_the_rules_say() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == text()


def text() -> str:
    """The whole document."""
    return "\n".join(_lines(list(rules.all_rules().values()))) + "\n"


def _lines(known: list[Rule]) -> Iterator[str]:
    yield "# Rules"
    yield ""
    yield "Each finding names its rule in brackets; `spillscan explain RULE` prints what stands here. A policy changes"
    yield "the severity of a rule, or turns it off, for all kernels or for some: see [policy.md](policy.md)."
    yield ""
    yield "| rule | severity | judges | finds that |"
    yield "|---|---|---|---|"
    for rule in known:
        yield f"| [`{rule.id}`](#{rule.id}) | {rule.severity} | {', '.join(rule.judges)} | {rule.title} |"
    for rule in known:
        yield ""
        yield f"## {rule.id}"
        yield ""
        yield f"**{rule.title}.** {rule.means}"
        yield ""
        yield f"*Why it matters.* {rule.matters}"
        yield ""
        yield f"*What to do.* {rule.remedy}"
        yield ""
        yield f"*How to tune it.* {rule.tuning}"
    yield ""
    yield "## How to suppress a rule"
    yield ""
    yield "In `spillscan.yaml`, and the same for each rule:"
    yield ""
    yield "```yaml"
    yield from suppression(known[0])
    yield "```"


if __name__ == "__main__":
    DOCUMENT.write_text(text(), encoding="utf-8")
