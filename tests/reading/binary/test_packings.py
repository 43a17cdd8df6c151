"""The same bytes, in eight containers, five compressions and three depths: some, in ``make oracle`` all."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from spillscan import scan
from spillscan.reading.inputs import codecs, formats
from spillscan.reading.inputs.source import Stream
from spillscan.reading.pipeline import contents
from tests.conftest import FIXTURES, run, sized
from tests.reading import packings
from tests.reading.binary.support import FOLDER, stored

CLEAN = FOLDER / "tiny-sm_80-13.5.cubin"
CUBIN = stored("inlined-sm_80-13.5.cubin")
LOG = (FIXTURES / "demo" / "head.log").read_bytes()
CASES = [(form, codec) for form in packings.CONTAINERS for codec in packings.COMPRESSIONS][:: sized(12, 1)]
"""In the suite every compression and most containers, not every pair."""


def symbols(path: Path) -> list[str]:
    """Symbols of the kernels and functions in a file, or below a folder; there must be no issue."""
    build = scan(path)
    assert not [issue for issue in build.issues if issue.severity != "note"]
    return sorted(kernel.key.symbol for kernel in build.kernels)


def piped(data: bytes) -> list[str]:
    """Symbols of an input read from a pipe."""
    reading = contents(Stream(BytesIO(data), "standard input"), "standard input")
    assert reading is not None
    return sorted((*(each.symbol for each in reading.functions), *(each.key.symbol for each in reading.kernels)))


@pytest.mark.parametrize("depth", packings.DEPTHS)
@pytest.mark.parametrize(("form", "codec"), CASES)
def test_packed_files_are_read(form: str, codec: str, depth: int, tmp_path: Path) -> None:
    for data, name in ((CUBIN, "k.cubin"), (LOG, "b.log")):
        (tmp_path / name).write_bytes(data)
        expected = symbols(tmp_path / name)
        (tmp_path / name).unlink()
        packed, called = packings.packed(data, name, form, codec, depth)
        (tmp_path / called).write_bytes(packed)
        assert symbols(tmp_path / called) == symbols(tmp_path) == expected
        assert piped(packed) == piped(data)
        (tmp_path / called).unlink()


@pytest.mark.parametrize("depth", sized((2,), packings.DEPTHS))
@pytest.mark.parametrize(("form", "codec"), CASES)
def test_a_clean_file_next_to_it_hides_nothing(form: str, codec: str, depth: int, tmp_path: Path) -> None:
    (tmp_path / "clean.cubin").write_bytes(CLEAN.read_bytes())
    assert run("check", tmp_path, "--set", "max_spill_bytes=0").returncode == 0
    packed, called = packings.packed(LOG, "b.log", form, codec, depth)
    (tmp_path / called).write_bytes(packed)
    assert run("check", tmp_path, "--set", "max_spill_bytes=0").returncode == 1


def test_each_codec_is_tried() -> None:
    assert len(packings.COMPRESSIONS) == len(codecs.CODECS)
    assert {codec.name for compress in packings.COMPRESSIONS.values() if (codec := codecs.codec_of(compress(LOG)))} == {
        codec.name for codec in codecs.CODECS
    }
    for compress in packings.COMPRESSIONS.values():
        assert formats.may_hold_code(compress(LOG))
