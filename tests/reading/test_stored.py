"""Records of each fixture, compared with stored ones: ``python -m tests.reading.test_stored`` rewrites them. Other
tests check that they are right; this one shows all that a change affects.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spillscan import Build, scan
from spillscan.model import Kernel
from spillscan.model.serialize import issue_json, kernel_json, text
from spillscan.reading.binary import fetch
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.size_accounting import sizes_of
from spillscan.reading.binary.window import DEFAULT
from tests import reference
from tests.conftest import FIXTURES, manifest, record, sized, stored
from tests.reading.binary.support import stored as decompressed

STORED = FIXTURES / "EXPECTED.json"
FILES = sorted(
    path.relative_to(FIXTURES).as_posix()
    for folder in (
        "binary",
        "sass",
        "library",
        "ptx",
        "ptxas",
        "nvlink",
        "build",
        "failures",
        "identity",
        "demo",
        "effects",
    )
    for path in (FIXTURES / folder).rglob("*")
    if path.is_file() and not path.name.startswith(("elf-", "run.sh"))
)


_OF_COMPILERS = [file for file in FILES if file.startswith(("binary/", "sass/", "ptxas/", "nvlink/"))]


def digest(value: object) -> str:
    """So much of a SHA-256 that no two of some thousand are alike."""
    return hashlib.sha256((value if isinstance(value, str) else json.dumps(value)).encode()).hexdigest()[:10]


def drawn(number: int, files: list[str], count: int) -> list[str]:
    """Some of ``files`` at random, each by a lot of its own: few others are drawn where there is one more file."""
    return sorted(files, key=lambda file: digest(f"{number} {file}"))[:count]


TOGETHER = [" ".join(drawn(number, _OF_COMPILERS, 2 + number % 3)) for number in range(40)]
"""Inputs of one build, which share some of their kernels: what is joined, and what is not."""


def summary(file: str) -> dict[str, Any]:
    """Values of each kernel, in the order of the naive reading, and a digest of its whole record; issues; for a binary
    the kinds of its bytes, and live registers by instruction. Called in the folder of the fixtures, to which places in
    records are relative."""
    build = scan(file.split(), live=True)
    found: dict[str, Any] = {
        "kernels": [_kernel(kernel) for kernel in build.kernels],
        "issues": [[issue.code, issue.severity, digest(text(issue_json(issue)))] for issue in build.issues],
        "other": digest(
            repr([getattr(build, name) for name in build.__struct_fields__ if name not in ("kernels", "issues")])
        ),
    }
    if file in TOGETHER:
        found["kernels"] = [len(found["kernels"]), digest(found["kernels"])]
    elif file.startswith("binary/"):
        found |= _of_binary(file, build)
    return found


def _kernel(kernel: Kernel) -> list[Any]:
    key, sass = kernel.key, kernel.sass
    return [
        *(key.symbol, key.arch, key.unit, kernel.role, kernel.confidence, kernel.final),
        *(record(kernel)[name] for name in reference.METRICS),
        [advisory.kind for advisory in kernel.advisories],
        None if sass is None else sass.instructions,
        digest(text(kernel_json(kernel))),
    ]


def _of_binary(file: str, build: Build) -> dict[str, Any]:
    pressures = fetch.pressures_of(build.kernels)
    lives = [
        [(str(each), each.begin, each.end) for each in found.ranges]
        + [found.lines, kernel.sass and found.demand(kernel.sass.local)]
        for kernel in build.kernels
        if (found := pressures.get(id(kernel)))
    ]
    codes = []
    for text_of in fetch.texts_of(build.kernels).values():
        with suppress(ValueError):  # no table for its architecture
            code = Code(text_of)
            codes.append([code.instructions, code.sources])
    data = decompressed(Path(file).stem) if file.endswith(".zst") else Path(file).read_bytes()
    found = sizes_of(data, len(data), DEFAULT, copies=True)
    sizes = sorted((*key, measure.stored, measure.plain) for key, measure in found.sums.items())
    return {
        "live": digest(repr(lives)),
        "code": digest(repr(codes)),
        "sizes": digest(repr((sizes, len(found.copies)))),
    }


@pytest.mark.parametrize("file", (FILES + TOGETHER)[:: sized(2, 1)])
def test_as_it_was_read_before(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES)
    assert summary(file) == stored(STORED)[file]


def test_the_manifest_is_in_the_order_in_which_it_is_written() -> None:
    files = [entry["file"] for entry in manifest()]
    assert files == sorted(files)


def write() -> None:
    """Rewrite the file; read its diff."""
    os.chdir(FIXTURES)
    lines = [f" {json.dumps(file)}: {json.dumps(summary(file))}" for file in FILES + TOGETHER]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write()
