"""The same bytes, however they are packed: a fast part of what :mod:`tests.oracle.containers_oracle` holds in whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan import scan
from spillscan.reading.inputs import codecs, formats
from tests.conftest import FIXTURES, run, sized
from tests.reading import packings
from tests.reading.binary.support import FOLDER, stored

CLEAN = FOLDER / "tiny-sm_80-13.5.cubin"
CUBIN = stored("inlined-sm_80-13.5.cubin")
LOG = (FIXTURES / "demo" / "head.log").read_bytes()
CASES = [
    case
    for number, case in enumerate((form, codec) for form in packings.CONTAINERS for codec in packings.COMPRESSIONS)
    if number % 4 == 0
]
"""Every container and every compression, not every pair."""


def symbols(path: Path) -> list[str]:
    """Of the kernels and functions in a file, or below a folder; there must be no issue."""
    build = scan(path)
    assert not [issue for issue in build.issues if issue.severity != "note"]
    return sorted(kernel.key.symbol for kernel in build.kernels)


@pytest.mark.parametrize("depth", packings.DEPTHS)
@pytest.mark.parametrize(("form", "codec"), CASES[:: sized(3, 1)])
def test_what_is_packed_is_read(form: str, codec: str, depth: int, tmp_path: Path) -> None:
    for data, name in ((CUBIN, "k.cubin"), (LOG, "b.log")):
        (tmp_path / name).write_bytes(data)
        expected = symbols(tmp_path / name)
        (tmp_path / name).unlink()
        packed, called = packings.packed(data, name, form, codec, depth)
        (tmp_path / called).write_bytes(packed)
        assert symbols(tmp_path / called) == symbols(tmp_path) == expected
        (tmp_path / called).unlink()


@pytest.mark.parametrize(("form", "codec"), CASES[::3])
def test_a_clean_file_beside_it_hides_nothing(form: str, codec: str, tmp_path: Path) -> None:
    (tmp_path / "clean.cubin").write_bytes(CLEAN.read_bytes())
    assert run("check", tmp_path, "--set", "max_spill_bytes=0").returncode == 0
    packed, called = packings.packed(LOG, "b.log", form, codec, 2)
    (tmp_path / called).write_bytes(packed)
    assert run("check", tmp_path, "--set", "max_spill_bytes=0").returncode == 1


def test_each_codec_is_tried() -> None:
    assert len(packings.COMPRESSIONS) == len(codecs.CODECS)
    assert {codec.name for compress in packings.COMPRESSIONS.values() if (codec := codecs.codec_of(compress(LOG)))} == {
        codec.name for codec in codecs.CODECS
    }
    for compress in packings.COMPRESSIONS.values():
        assert formats.may_hold_code(compress(LOG))
