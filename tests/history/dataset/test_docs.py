"""The columns in ``docs/nightly.md`` are those of the schema: ``python -m tests.history.dataset.test_docs``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from spillscan.history.dataset import schema
from spillscan.history.dataset.shapes import Field, Many, Record, Shape
from spillscan.model.figures import FIGURES
from tests.conftest import ROOT
from tests.history.dataset.support import BASE, HEAD, append

PAGE = ROOT / "docs" / "nightly.md"
TABLES = re.compile(r"(<!-- columns: [^>]*-->\n)(.*?)(<!-- end -->)", re.DOTALL)
_WORDS = {"text": "text", "whole": "integer", "real": "double", "flag": "boolean"}


def tables() -> str:
    """The columns of each view as Markdown."""
    return "\n" + "\n".join("\n".join(_table(name, fields)) + "\n" for name, fields in schema.TABLES.items())


def _table(name: str, fields: tuple[Field, ...]) -> Iterator[str]:
    figures = {each.name for each in FIGURES}
    yield f"| `{name}` | type | |"
    yield "|---|---|---|"
    for field in fields:
        if field.name not in figures or field.shape != "whole":
            yield f"| `{field.name}` | {_type(field.shape)} | {field.about} |"


def _type(shape: Shape) -> str:
    if isinstance(shape, Many):
        return f"list of {_type(shape.of)}"
    if isinstance(shape, Record):
        return f"({', '.join(field.name for field in shape.fields)})"
    return _WORDS[shape]


def test_the_page_lists_the_columns() -> None:
    found = TABLES.search(PAGE.read_text(encoding="utf-8"))
    assert found
    assert found[2] == tables()


def test_every_column_says_what_it_is() -> None:
    for fields in schema.TABLES.values():
        assert all(field.about and 1 <= field.since <= schema.VERSION for field in fields)
        assert len({field.name for field in fields}) == len(fields)


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for root in ("spillscan-data", "data"):
        append(root, "v1", BASE)
        append(root, "v2", HEAD)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    reported: dict[str, object] = {}
    for block in blocks:
        exec("import duckdb, pandas, polars\n" + block, reported)
    assert len(reported["build"].kernels) == 10  # type: ignore[attr-defined]
    assert reported["frame"].fetchall()[0][0] == "v2"  # type: ignore[attr-defined]


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
