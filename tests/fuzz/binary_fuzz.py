"""Fuzzes the reader of binaries with atheris: nothing but records and issues may come of any bytes.

    python -m tests.fuzz.binary_fuzz [CORPUS] [libFuzzer options: -runs=N -max_total_time=SECONDS -jobs=N …]

Without a corpus, that of `tests/fuzz/corpus/binary` is used and added to. Seeds are our own sources' code
(`fixtures/binary/tiny-*`) and archives of it. Limits of libFuzzer are set to 10 seconds and 512 MB an execution; it
does not look for the finds of other jobs (give `-reload=1` with `-jobs`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["spillscan.reading.binary", "spillscan.reading.disassembly"]):
    from spillscan.reading.binary import records

from spillscan.model import Issue
from spillscan.model.code import PortableCode, SassFunction
from spillscan.model.serialize import sass_json, text

CORPUS = Path(__file__).parent / "corpus" / "binary"


def one(data: bytes) -> None:
    """One execution."""
    for item in records.items(data, "fuzz"):
        if isinstance(item, Issue):
            assert item.message.isprintable()
        elif isinstance(item, PortableCode):
            assert item.bytes >= 0
        else:
            assert isinstance(item, SassFunction)
            assert sum(count for _, count in item.stats.opcodes) == item.stats.instructions
            assert text(sass_json(item.stats))


def main() -> None:
    """Hand over to libFuzzer."""
    corpus = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    options = [argument for argument in sys.argv[1:] if argument.startswith("-")]
    limits = ["-timeout=10", "-rss_limit_mb=512", "-max_len=65536", "-reload=0"]
    atheris.Setup([sys.argv[0], *(corpus or [str(CORPUS)]), *limits, *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
