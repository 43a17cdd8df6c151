"""Eight containers, seven compressions, three depths, beside a clean file: none is silent. Not part of `make test`.

    python -m tests.oracle.containers_oracle

Packs a cubin and a log in each of the 168 ways, and asks `spillscan check` for spills of the folder that holds the
packed file and a clean cubin: exit status 1, or 2 with a gap. What is found is what is found in the plain file,
whether the packed file is named, stands in the folder or comes through a pipe. Exits with 1 where it is not so.
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path

from spillscan import scan
from spillscan.reading.inputs.source import Stream
from spillscan.reading.pipeline import contents
from tests.conftest import FIXTURES, run
from tests.reading import packings
from tests.reading.binary.support import FOLDER, stored


def _symbols(path: Path) -> list[str]:
    return sorted(kernel.key.symbol for kernel in scan(path).kernels)


def _piped(data: bytes) -> list[str]:
    reading = contents(Stream(BytesIO(data), "standard input"), "standard input")
    assert reading is not None
    found = (*(each.symbol for each in reading.functions), *(each.key.symbol for each in reading.kernels))
    return sorted(found)


def main() -> int:
    """Exit status."""
    clean = (FOLDER / "tiny-sm_80-13.5.cubin").read_bytes()
    inputs = {
        "k.cubin": stored("inlined-sm_80-13.5.cubin"),
        "b.log": (FIXTURES / "demo" / "head.log").read_bytes(),
    }
    wrong, tried = [], 0
    for name, data in inputs.items():
        piped = _piped(data)
        for form, codec, depth in packings.every():
            with tempfile.TemporaryDirectory() as folder:
                plain = Path(folder) / name
                plain.write_bytes(data)
                expected = _symbols(plain)
                plain.unlink()
                packed, called = packings.packed(data, name, form, codec, depth)
                path = Path(folder) / called
                path.write_bytes(packed)
                same = _symbols(path) == _symbols(Path(folder)) == expected and _piped(packed) == piped
                (Path(folder) / "clean.cubin").write_bytes(clean)
                status = run("check", folder, "--set", "max_spill_bytes=0").returncode
            tried += 1
            if status != 1 or not same:
                wrong.append(
                    f"{name} in {form}, {codec}, {depth} deep: exit {status}, {'' if same else 'not '}the same"
                )
    for each in wrong:
        print(each)
    print(f"{tried} packed files, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
