"""``docs/policy.md`` is true. ``python -m tests.judging.policy.test_docs`` writes its table of keys."""

from __future__ import annotations

import re

import pytest

from spillscan.judging.policy.file import (
    KEYS,
    LIMITS,
    AcceptEntry,
    KernelEntry,
    LaunchEntry,
    PolicyFile,
    default_of,
    schema,
)
from spillscan.judging.policy.reading import layer
from spillscan.model.nodes import parse_yaml
from tests.conftest import ROOT

DOCUMENT = ROOT / "docs" / "policy.md"
TABLE = re.compile(r"(?<=test_docs -->\n).*?(?=<!-- end)", re.DOTALL)
PAGES = (DOCUMENT, ROOT / "README.md", ROOT / "docs" / "rules.md")


def table() -> str:
    """The keys as Markdown."""
    rows = ["| key | default | in entries | meaning |", "|---|---|---|---|"]
    fields = schema()["$defs"]["PolicyFile"]["properties"]
    for key in KEYS:
        value = default_of(key)
        default = ("none" if key in LIMITS else "") if value is None else value
        rows.append(f"| `{key}` | {default} | {'yes' if key in LIMITS else ''} | {fields[key]['description']} |")
    return "\n".join(rows) + "\n"


def test_the_table_has_every_key() -> None:
    found = TABLE.search(DOCUMENT.read_text(encoding="utf-8"))
    assert found
    assert found[0] == table()


def test_all_fields_are_documented() -> None:
    written = DOCUMENT.read_text(encoding="utf-8")
    for table in (PolicyFile, KernelEntry, LaunchEntry, AcceptEntry):
        for name in table.__struct_fields__:
            assert f"`{name}`" in written or f"{name}:" in written, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_are_policies(page: object) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)  # type: ignore[attr-defined]
    assert blocks
    for block in blocks:
        layer(parse_yaml(block, "example"))


if __name__ == "__main__":
    written = TABLE.sub(lambda _: table(), DOCUMENT.read_text(encoding="utf-8"))
    DOCUMENT.write_text(written, encoding="utf-8")
