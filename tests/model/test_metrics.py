"""A metric is declared in one place: one that is made up there is in every output, option, schema and comparison."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spillscan.judging.compare.metrics import compare
from spillscan.model import Kernel, KernelKey
from spillscan.model.metrics import COMPARED, METRICS, PRINTED, RANKED, STORED, TABULAR, TRACKED
from spillscan.model.usage import NUMBERS, Usage
from tests.conftest import ROOT
from tests.history.dataset import test_docs
from tests.model import test_schema

PAGE = ROOT / "docs" / "explain" / "metrics.md"
TABLE = re.compile(r"(<!-- metrics: [^>]*-->\n)(.*?)(<!-- end -->)", re.DOTALL)

ADDITIONS = (
    ("model/usage.py", "    unknown_clauses: tuple[str, ...] = ()", "    widgets: int | None = None\n"),
    (
        "model/metrics.py",
        '    _printed("surfaces", ',
        '    _printed("widgets", 100, clause="widgets"),\n',
    ),
    ("model/metrics.py", '    "surfaces": (', '    "widgets": ("widgets", "widgets per block"),\n'),
)
"""(module, line after the new one, new line)."""
LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, 360 bytes cmem[0], {} widgets
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product with one more metric: a line in the model, and the clause in the grammar of what prints it."""
    root = tmp_path_factory.mktemp("product")
    shutil.copytree(ROOT / "spillscan", root / "spillscan", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "grammars", root / "grammars")
    shutil.copytree(ROOT / "docs", root / "docs")
    for module, place, line in ADDITIONS:
        path = root / "spillscan" / module
        text = path.read_text(encoding="utf-8")
        assert text.count(place) == 1
        path.write_text(text.replace(place, line + place), encoding="utf-8")
    grammar = root / "grammars" / "usage.lark"
    text = grammar.read_text(encoding="utf-8")
    for line in (
        " | samplers",
        "samplers: _COMMA SIZE _SAMPLERS\n",
        "_SAMPLERS: / samplers(?=,| \\(|\\r?$)/m\n",
    ):
        assert text.count(line) == 1
        text = text.replace(line, line + line.replace("SAMPLERS", "WIDGETS").replace("samplers", "widgets"))
    grammar.write_text(text, encoding="utf-8")
    for name, count in (("base", 1), ("head", 5)):
        (root / f"{name}.log").write_text(LOG.format(count), encoding="utf-8")
    return root


CALLS = {
    "snapshot": ["scan", "base.log", "-f", "json:base.json"],
    "csv": ["scan", "base.log", "-f", "csv"],
    "diff": ["diff", "base.json", "head.log"],
    "diff-json": ["diff", "base.log", "head.log", "-f", "json"],
    "diff-csv": ["diff", "base.log", "head.log", "-f", "csv"],
    "diff-markdown": ["diff", "base.log", "head.log", "-f", "markdown"],
    "matrix": ["diff", "base.log", "head.log", "--by", "arch", "--metric", "widgets"],
    "page": ["scan", "head.log", "-f", "html"],
    "query": ["history", "query", "SELECT label, widgets FROM kernels ORDER BY 1", "--dataset", "data", "-f", "csv"],
    "history": ["history", "--kernel", "k", "--metric", "widgets", "--dataset", "data"],
}
SCRIPT = """
import contextlib, io, json, sys
from spillscan import cli, scan
from spillscan.history.dataset import Unit, write_batch
for label, name, day in (("v1", "base.log", 1), ("v2", "head.log", 2)):
    meta = {"time": f"2026-01-0{day}T00:00:00Z"}
    write_batch("data", label, [(Unit(uri=name, content_hash=name), scan(name))], meta)
found = {}
for name, words in json.load(sys.stdin).items():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main(words)
        except SystemExit as exit:
            status = exit.code
    found[name] = [status, out.getvalue(), err.getvalue()]
found["frame"] = [0, scan("head.log").to_pandas().to_csv(), ""]
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def output(product: Path) -> dict[str, str]:
    """Output of each call."""
    environment = {**os.environ, "PYTHONPATH": str(product), "COLUMNS": "100"}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(CALLS),
        capture_output=True,
        text=True,
        cwd=product,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, tuple[int, str, str]] = json.loads(ran.stdout)
    for name, (status, _, error) in found.items():
        assert status == 0, (name, error)
    return {name: out for name, (_, out, _) in found.items()}


def _csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_new_metric_is_in_the_records(product: Path, output: dict[str, str]) -> None:
    kernel: dict[str, Any] = json.loads((product / "base.json").read_text(encoding="utf-8"))["kernels"][0]
    assert kernel["usage"]["widgets"] == 1
    assert kernel["usage"]["unknown_clauses"] == []
    assert _csv(output["csv"])[0]["widgets"] == "1"
    assert _csv(output["frame"])[0]["widgets"] == "5"


def test_a_new_metric_is_compared(output: dict[str, str]) -> None:
    assert "widgets" in output["diff"]
    assert "1 → 5 (+4)" in output["diff"]
    assert json.loads(output["diff-json"])["changes"][0]["metrics"] == {"widgets": [1, 5]}
    rows = _csv(output["diff-csv"])
    assert [(row["metric"], row["before"], row["after"]) for row in rows] == [("widgets", "1", "5")]
    assert "widgets" in output["diff-markdown"]
    assert "widgets" in output["matrix"]
    assert "1" in output["matrix"]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_printed_metric_is_compared(name: str) -> None:
    before, after = (
        Kernel(key=KernelKey(symbol="k"), role="entry", usage=Usage(**{name: count}))  # type: ignore[arg-type]
        for count in (1, 5)
    )
    assert (name, 1, 5) in [*compare(before, after)]


def test_a_new_metric_is_on_the_page(output: dict[str, str]) -> None:
    assert '"key":"widgets","label":"widgets"' in output["page"].replace(" ", "")


def test_a_new_metric_is_kept_and_followed(output: dict[str, str]) -> None:
    assert output["query"].split() == ["label,widgets", "v1,1", "v2,5"]
    assert "widgets" in output["history"]
    assert "v2" in output["history"]


def page() -> str:
    """The table of ``docs/explain/metrics.md``."""
    lines = ["| metric | label | unit | from | dataset | |", "|---|---|---|---|---|---|"]
    for each in METRICS:
        source = f"{each.source}, linker" if each.linker else each.source
        about = each.about.removesuffix(" (needs machine code)")
        stored = "yes" * (each in RANKED)
        lines.append(f"| `{each.name}` | {each.label} | {each.unit} | {source} | {stored} | {about} |")
    return "\n".join(lines) + "\n"


def test_the_docs_list_the_metrics() -> None:
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found
    assert found[2] == page()


def test_the_table_is_whole() -> None:
    assert tuple(Usage.__struct_fields__) == (*(each.name for each in PRINTED), "unknown_clauses")
    assert len({each.name for each in METRICS}) == len(METRICS)
    assert len({each.label for each in METRICS}) == len(METRICS)
    assert all(each.about and each.label for each in METRICS)
    assert {each.linker for each in PRINTED} <= {"", *Usage.__struct_fields__}
    assert {each.name for each in PRINTED if each.kind == "number"} <= {each.name for each in COMPARED}
    assert all(each.get is not None for each in STORED)
    assert {each.name for each in TRACKED} <= {each.name for each in TABULAR}
    silent = Kernel(key=KernelKey(symbol="k"), role="entry", usage=Usage())
    assert all(each.get is None or each.get(silent) is None for each in METRICS), "unknown is never 0"
    assert set(NUMBERS) <= {each.name for each in METRICS}


def write() -> None:
    """Write the metrics into the docs and the schema."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda found: found[1] + page() + found[3], text), encoding="utf-8")
    test_schema.write()
    test_docs.write()


if __name__ == "__main__":
    write()
