"""The columns in ``docs/history.md`` are those of the schema: ``python -m tests.history.dataset.test_docs``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from spillscan.history.dataset import schema
from spillscan.model.metrics import STORED
from tests.conftest import ROOT
from tests.history.dataset.support import BASE, HEAD, append

PAGE = ROOT / "docs" / "history.md"
TABLES = re.compile(r"(<!-- columns: [^>]*-->\n)(.*?)(<!-- end -->)", re.DOTALL)
_WORDS = {str: "text", int: "integer", float: "double", bool: "boolean", tuple: "list of text"}


def tables() -> str:
    """The columns of each view as Markdown."""
    return "\n" + "\n".join("\n".join(_table(name)) + "\n" for name in schema.TABLES)


def _table(name: str) -> Iterator[str]:
    figures = {each.name for each in STORED}
    yield f"| `{name}` | type | |"
    yield "|---|---|---|"
    for column in schema.columns(name):
        if name != "kernels" or column.name not in figures:
            yield f"| `{column.name}` | {_WORDS[column.kind]} | {column.about} |"


def test_the_page_lists_the_columns() -> None:
    found = TABLES.search(PAGE.read_text(encoding="utf-8"))
    assert found
    assert found[2] == tables()


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for root in ("spillscan-data", "data"):
        append(root, "v1", BASE)
        append(root, "v2", HEAD)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    reported: dict[str, object] = {}
    for block in blocks:
        exec(block, reported)
    assert len(reported["build"].kernels) == 10  # type: ignore[attr-defined]
    assert reported["frame"].fetchall()[0][0] == "v2"  # type: ignore[attr-defined]


@pytest.mark.oracle
def test_the_notebook_runs() -> None:
    import nbclient
    import nbformat

    notebook = nbformat.read(ROOT / "docs" / "examples" / "dataset.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without outputs"
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    assert "spill_bytes" in str(notebook.cells[-1]["outputs"])


def write() -> None:
    """Put the present columns into the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLES.sub(lambda found: found[1] + tables() + found[3], text), encoding="utf-8")


if __name__ == "__main__":
    write()
