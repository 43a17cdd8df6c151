"""What DuckDB alone takes for the answers of `history`: the questions as one would write them, on all files of kernels.

    python -m tests.benchmarks.plain_questions DATASET count|top|bisect|history SYMBOL LABEL

Nothing is checked, and nothing is followed through another name.
"""

from __future__ import annotations

import sys

import duckdb

FIGURES = (
    *("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes"),
    *("shared_bytes", "barriers", "spill_bytes", "compile_ms"),
)


def questions(root: str, symbol: str, label: str) -> dict[str, str]:
    """SQL by what is asked."""
    kinds = "hive_partitioning = true, hive_types = {'label': VARCHAR, 'arch': VARCHAR}"
    kernels = f"read_parquet('{root}/kernels/**/*.parquet', {kinds})"
    worst = ", ".join(f"max({each}) AS {each}" for each in FIGURES)
    before = ", ".join(f"lag({each}) OVER same AS {each}_was" for each in FIGURES)
    grown = ", ".join(f"max({each} - {each}_was) AS {each}_grown" for each in FIGURES)
    changed = " OR ".join(f"{each} IS DISTINCT FROM {each}_was" for each in FIGURES)
    return {
        "count": f"SELECT count(*) FROM {kernels}",
        "top": f"SELECT symbol, arch, object, spill_bytes, spills_in_loops, registers FROM {kernels}"
        f" WHERE label = '{label}' AND spill_bytes > 0 ORDER BY spill_bytes DESC LIMIT 25",
        "bisect": "SELECT * FROM (SELECT label, arch, spill_bytes, lag(spill_bytes) OVER (PARTITION BY canonical, arch"
        f" ORDER BY label) AS was FROM {kernels} WHERE canonical = '{symbol}') WHERE spill_bytes IS DISTINCT FROM was",
        "history": f"WITH worst AS (SELECT label, canonical, arch, short_name, {worst} FROM {kernels} GROUP BY ALL),"
        f" moved AS (SELECT *, {before} FROM worst WINDOW same AS (PARTITION BY canonical, arch ORDER BY label))"
        f" SELECT label, short_name, {grown}, count(*) FROM moved WHERE {changed} GROUP BY ALL",
    }


def main() -> None:
    """Ask one."""
    root, asked, symbol, label = sys.argv[1:]
    connection = duckdb.connect(":memory:")
    connection.execute("SET memory_limit = '512MB'")
    connection.execute("SET preserve_insertion_order = false")
    print(len(connection.execute(questions(root, symbol, label)[asked]).fetchall()))


if __name__ == "__main__":
    main()
