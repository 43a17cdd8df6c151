"""Queries that are allowed, and queries that are rejected."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from spillscan.history.dataset import open_dataset, sql
from spillscan.history.dataset.reading import Dataset
from spillscan.output.errors import UsageError
from tests.conftest import FIXTURES, sized
from tests.history.dataset.support import BASE, HEAD, append, command


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("query") / "data"
    append(place, "v1", BASE, time="2026-01-01")
    append(place, "v2", HEAD, FIXTURES / "binary" / "bounds-13.5.cubin.zst", time="2026-01-02", branch="main")
    return place


@pytest.fixture(scope="module")
def dataset(root: Path) -> Dataset:
    return open_dataset(str(root))


HOSTILE = (
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "/etc/passwd"',
    "SELECT * FROM 'https://example.com/x.parquet'",
    "SELECT * FROM 's3://bucket/x.parquet'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_ndjson_objects('/etc/passwd')",
    "SELECT * FROM read_parquet('/tmp/x.parquet')",
    "SELECT * FROM parquet_scan('/tmp/x.parquet')",
    "SELECT * FROM parquet_metadata('/tmp/x.parquet')",
    "SELECT * FROM parquet_schema('/tmp/x.parquet')",
    "SELECT * FROM glob('/*')",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM x",
    "SELECT 1 WHERE EXISTS (FROM read_text('/etc/passwd'))",
    "SELECT * FROM kernels, LATERAL (SELECT * FROM read_text(symbol))",
    "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "SELECT * FROM query_table('/etc/passwd')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_extensions()",
    "SELECT * FROM pragma_database_list()",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM enable_logging()",
    "SELECT getenv('HOME')",
    "SELECT nextval('x')",
    "COPY kernels TO '/tmp/stolen.csv'",
    "COPY (SELECT 1) TO '/tmp/stolen.csv'",
    "COPY x FROM '/etc/passwd'",
    "EXPORT DATABASE '/tmp/stolen'",
    "IMPORT DATABASE '/tmp/stolen'",
    "ATTACH '/tmp/x.db'",
    "ATTACH ':memory:' AS x",
    "DETACH memory",
    "USE memory",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '/tmp/x.so'",
    "SET enable_external_access = true",
    "SET memory_limit = '1TB'",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "PRAGMA enable_logging",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "CREATE TABLE x AS SELECT 1",
    "CREATE MACRO x() AS TABLE SELECT * FROM read_text('/etc/passwd')",
    "CREATE SECRET x (TYPE s3)",
    "CREATE OR REPLACE VIEW kernels AS SELECT 1",
    "DROP VIEW kernels",
    "INSERT INTO builds VALUES (1)",
    "DELETE FROM builds",
    "UPDATE builds SET label = 'x'",
    "ALTER VIEW kernels RENAME TO x",
    "EXPLAIN ANALYZE COPY kernels TO '/tmp/stolen.csv'",
    "PREPARE x AS SELECT * FROM read_text('/etc/passwd')",
    "EXECUTE x",
    "BEGIN TRANSACTION",
    "CHECKPOINT",
    "VACUUM",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY kernels TO '/tmp/stolen.csv'",
    "SELECT 1 /* */; /* */ LOAD httpfs",
    "SELECT * FROM dataset",
    "SELECT * FROM connection",
    "",
    ";",
    "-- nothing",
    "\x00",
    "SELECT '\ud800'",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + "NOT " * 5000 + "true",
    "nonsense",
)


def test_there_are_many() -> None:
    assert len(HOSTILE) == len(set(HOSTILE)) > 70


@pytest.mark.parametrize("question", HOSTILE, ids=lambda question: question[:40].encode("ascii", "replace").decode())
def test_nothing_but_the_views_can_be_reached(question: str, dataset: Dataset) -> None:
    with pytest.raises(UsageError) as caught:
        sql.ask_anything(dataset.connection, question, seconds=10)
    assert "\n" not in str(caught.value)
    assert not Path("/tmp/stolen.csv").exists()


@pytest.mark.parametrize(
    "question", [each for each in HOSTILE if each[:4] in ("COPY", "ATTA", "LOAD", "SET ", "INST", "RESE", "EXPO")]
)
def test_the_connection_is_locked_even_for_unchecked_queries(question: str, dataset: Dataset) -> None:
    import duckdb

    if question == "ATTACH ':memory:' AS x":
        return  # reads nothing
    with pytest.raises(duckdb.Error):
        dataset.connection.execute(question)


@pytest.mark.parametrize("function", ["read_text", "read_blob", "read_csv", "read_json", "read_parquet", "glob"])
def test_no_function_reads_a_file_of_the_dataset_either(function: str, root: Path, dataset: Dataset) -> None:
    """DuckDB itself may read the files that records name, for the views, and no other; a question may name none."""
    import duckdb

    part, record = (next((root / name).rglob("*.*")) for name in ("kernels", "commits"))
    with pytest.raises(UsageError, match=rf"the query calls {function}\(\)"):
        sql.ask_anything(dataset.connection, f"SELECT * FROM {function}('{part}')", seconds=10)
    for path in (record, part.with_name("other.parquet"), f"{part.parent}/*"):
        with pytest.raises(duckdb.Error, match=r"disabled|does not exist"):
            dataset.connection.execute(f"SELECT * FROM {function}('{path}')")


def test_a_question_may_take_its_time_but_no_more(root: Path) -> None:
    connection = open_dataset(str(root)).connection
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
    with pytest.raises(UsageError, match=r"more than 0\.2 s"):
        sql.ask_anything(connection, endless, seconds=0.2)
    with pytest.raises(UsageError, match=r"more than 0\.2 s"):
        sql.ask_anything(connection, "SELECT count(*) FROM range(1000000000000) a, range(1000000) b", seconds=0.2)
    assert sql.ask_anything(connection, "SELECT 1", seconds=10).rows == [(1,)]


def test_ctrl_c_in_a_query_is_no_unexpected_error() -> None:
    with pytest.raises(KeyboardInterrupt), sql.unread():
        raise RuntimeError("Query interrupted")  # as DuckDB 2.0 answers a signal


def test_a_question_may_hold_so_much_and_no_more(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPILLSCAN_MEMORY", "50MB")
    connection = open_dataset(str(root)).connect()
    with pytest.raises(UsageError, match="exceeds its memory"):
        sql.ask_anything(connection, "SELECT list(n) FROM range(100000000) t(n)", seconds=60)
    monkeypatch.setenv("SPILLSCAN_MEMORY", "1GB'; LOAD httpfs; --")
    with pytest.raises(UsageError, match="is not a memory size"):
        open_dataset(str(root)).connect()


def test_sound_questions(root: Path) -> None:
    dataset = open_dataset(str(root))
    for question, expected in (
        ("SELECT label, count(*) FROM kernels GROUP BY ALL ORDER BY label", [("v1", 10), ("v2", 16)]),
        ("FROM kernels SELECT max(spill_bytes)", [(940,)]),
        ("SELECT count(DISTINCT unit_id) FROM kernels JOIN units USING (unit_id)", [(3,)]),
        ("WITH x AS (SELECT * FROM range(3) t(n)) SELECT sum(n) FROM x", [(3,)]),
        ("SELECT label, meta['branch'] FROM builds ORDER BY position", [("v1", None), ("v2", "main")]),
        ("SELECT count(*) FROM issues", [(0,)]),
        ("VALUES (1)", [(1,)]),
        ("SELECT max((kernel->>'$.sass.opcodes.DFMA')::INT) FROM kernels", [(1024,)]),
    ):
        answer = sql.ask_anything(dataset.connection, question, seconds=30).rows
        assert len(answer) == len(expected), question
        if "opcode" not in question:
            assert answer == expected


def test_the_command_prints_text_csv_and_json(root: Path) -> None:
    question = "SELECT short_name, arch, registers, launched FROM kernels WHERE label = 'v1' ORDER BY ALL LIMIT 5"
    text = command("history", "query", question, "--dataset", root).out
    assert text.splitlines()[0].split() == ["short_name", "arch", "registers", "launched"]
    rows = json.loads(command("history", "query", question, "--dataset", root, "-f", "json").out)
    table = list(csv.DictReader(io.StringIO(command("history", "query", question, "--dataset", root, "-f", "csv").out)))
    assert [row["short_name"] for row in rows] == [row["short_name"] for row in table]
    assert isinstance(rows[0]["registers"], int)
    short = command("history", "query", question, "--dataset", root, "--top", "2").out
    assert short.splitlines()[-1] == "… more than 2 rows (--all shows them)"


@pytest.mark.parametrize("words", sized(["--all"], ["query 'SELECT count(*) FROM builds'", "--kernel *", "--all"]))
def test_no_question_loads_pandas(words: str, root: Path) -> None:
    code = "import sys; from spillscan.cli import main; main(); assert 'pandas' not in sys.modules"
    subprocess.run(
        [sys.executable, "-c", code, "history", "--dataset", root, *shlex.split(words)], capture_output=True, check=True
    )


def test_the_command_refuses_in_one_line(root: Path) -> None:
    for question in ("SELECT * FROM read_text('/etc/passwd')", "DROP VIEW kernels", "SELEC 1"):
        done = command("history", "query", question, "--dataset", root)
        assert (done.status, done.out) == (2, "")
        assert re.match("spillscan: (the query|invalid query: )", done.err)
        assert done.err.count("\n") == 1


def test_the_environment_names_the_dataset(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPILLSCAN_DATASET", str(root))
    assert command("history", "query", "SELECT count(*) AS n FROM kernels", "-f", "csv").out == "n\r\n26\r\n"
    monkeypatch.setenv("SPILLSCAN_DATASET", "/nowhere")
    assert command("history", "query", "SELECT 1") == (
        2,
        "",
        "spillscan: no dataset at /nowhere; `spillscan history audit` creates one\n",
    )


def test_kernel_names_never_act(tmp_path: Path) -> None:
    append(tmp_path, "v1", FIXTURES / "hostile" / "names.log")
    question = "SELECT symbol, name, object FROM kernels"
    for form in ("text", "csv", "json"):
        out = command("history", "query", question, "--dataset", tmp_path, "-f", form).out
        assert out
        assert not any(sign in out for sign in "\x1b\x07\x9b\u202e")
        assert "##[" not in out
    cells = csv.reader(io.StringIO(command("history", "query", question, "--dataset", tmp_path, "-f", "csv").out))
    assert not [cell for row in cells for cell in row if cell.startswith(("=", "+", "-", "@"))]


def test_a_lazy_frame_reads_on_into_pandas_and_polars(root: Path) -> None:
    dataset = open_dataset(str(root))
    assert dataset.kernels.filter("registers > 100").aggregate("count(*)").fetchall() == [(3,)]
    frame = dataset.query("SELECT label, registers FROM kernels ORDER BY registers DESC, label").df()
    assert list(frame["registers"][:2]) == [208, 108]
    assert dataset.units.pl().height == 3


def test_plain_readers_see_the_same(root: Path) -> None:
    import duckdb
    import pandas
    import polars

    expected = [("v1", 10), ("v2", 16)]
    pattern = f"{root}/kernels/**/*.parquet"
    assert duckdb.sql(f"SELECT label, count(*) FROM '{pattern}' GROUP BY ALL ORDER BY label").fetchall() == expected
    lazy = polars.scan_parquet(root / "kernels").group_by("label").len().sort("label")
    assert lazy.collect().rows() == expected
    frame = pandas.read_parquet(root / "kernels")
    assert list(frame.groupby("label", observed=True).size().items()) == expected
    assert set(frame["arch"]) == {"sm_80", "sm_90a", "sm_120"}
