"""``docs/rules.md`` and ``docs/gaps.md`` explain all; run as a module, this writes their lists and examples."""

from __future__ import annotations

import re
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from spillscan.judging.rule_docs import explanations
from spillscan.judging.rules import all_rules
from spillscan.model.gaps import KINDS
from tests.conftest import ROOT
from tests.judging.rules.test_rules import EXAMPLES, findings

EXAMPLE = re.compile(r"\*Example\.\* .*?(?=\n\n)", re.S)
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.S)


def table(document: str) -> Iterator[str]:
    """What stands between the marks."""
    groups: dict[str, list[str]] = {}
    if document == "rules":
        for rule in all_rules().values():
            groups.setdefault(rule.severity, []).append(rule.id)
    else:
        everything = set().union(*KINDS.values())
        for code, hides in KINDS.items():
            may_hide = "everything" if everything == set(hides) else ", ".join(hides) or "nothing"
            groups.setdefault(f"may hide {may_hide}", []).append(code)
    for name, members in groups.items():
        links = ", ".join(f"[`{each}`](#{each})" for each in members)
        yield textwrap.fill(f"* **{name}**: {links}", 124, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def with_examples(old: str) -> str:
    """The rules with what a gate says of each one's first example."""
    for rule in all_rules():
        case = next((each for each in EXAMPLES if each["rule"] == rule), None)
        assert case, f"examples.yaml has none of {rule}"
        with tempfile.TemporaryDirectory() as folder:
            found = findings(case["fails"], Path(folder))
        message = next(each.message for each in found if each.rule == rule)
        example = textwrap.fill(f"*Example.* `{message}`.", 124, break_long_words=False, break_on_hyphens=False)
        before, heading, after = old.partition(f"\n## {rule}\n")
        place = EXAMPLE.search(after)
        assert place, f"docs/rules.md has no section of {rule} with an `*Example.*`, which is written here"
        old = before + heading + after[: place.start()] + example + after[place.end() :]
    return old


def text(document: str) -> str:
    """The document with its table and examples."""
    old = (ROOT / "docs" / f"{document}.md").read_text(encoding="utf-8")
    new = TABLE.sub(lambda _: "".join(table(document)), old)
    return with_examples(new) if document == "rules" else new


@pytest.mark.parametrize("document", ["rules", "gaps"])
def test_the_table_says_what_is_so(document: str) -> None:
    assert (ROOT / "docs" / f"{document}.md").read_text(encoding="utf-8") == text(document)


def test_everything_is_explained_and_nothing_else() -> None:
    for document, names in (("rules", [*all_rules()]), ("gaps", [*KINDS])):
        explained = [*explanations(document)]
        assert not {*names} - {*explained}, f"docs/{document}.md has no section of these, as rule_docs.py reads it"
        assert sorted(explained) == sorted(names)
    assert list(explanations("rules")) == list(all_rules()), "in this order"


@pytest.mark.parametrize("document", ["rules", "gaps"])
def test_sections_are_whole(document: str) -> None:
    headings = {
        "rules": ["What it means", "Example", "What to do"],
        "gaps": ["What it means", "What to do"],
    }[document]
    for name, about in explanations(document).items():
        assert list(about.parts) == headings, name
        assert 10 < len(about.title) <= 100
        assert not about.title.endswith(".")
        for part in about.parts.values():
            assert len(part) > 3
            assert part.endswith((".", ")"))


if __name__ == "__main__":
    for each in ("rules", "gaps"):
        (ROOT / "docs" / f"{each}.md").write_text(text(each), encoding="utf-8")
