"""Every byte of a file is accounted for once, whatever stands in what."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from spillscan import cli
from spillscan.commands.size import _LEVELS
from spillscan.reading.binary import fatbin
from spillscan.reading.binary.size_accounting import HOST, OTHER, Copy, Key, Weight, weigh
from spillscan.reading.binary.window import DEFAULT, Window
from spillscan.reading.inputs.codecs import zstd
from spillscan.reports.sizes import Weighed, duplicates, tree
from tests.reading.binary.support import FOLDER, scanned, stored

NAMES = sorted(path.name.removesuffix(".zst") for path in FOLDER.iterdir() if path.suffix == ".zst")
LIBRARY, OBJECT = stored("linked-13.5.so"), stored("zstd-13.5.o")


def weighed(data: bytes, *, copies: bool = False) -> Weight:
    weight = weigh(data, len(data), DEFAULT, copies=copies)
    assert sum(each.stored for each in weight.sums.values()) == len(data)
    assert all(each.stored >= 0 and each.plain >= 0 for each in weight.sums.values())
    return weight


def kinds(weight: Weight) -> Counter[str]:
    found: Counter[str] = Counter()
    for key, measure in weight.sums.items():
        found[key.kind] += measure.plain
    return found


@pytest.mark.parametrize("name", NAMES)
def test_all_bytes_are_counted(name: str) -> None:
    weight = weighed(stored(name))
    assert not weight.damages
    assert weight.plain_bytes >= weight.stored_bytes
    assert kinds(weight)["code"] > 0


def sections(data: bytes) -> Counter[str]:
    """Bytes of code by function: an independent reading of a cubin's table of sections."""
    (table,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    rows = [struct.unpack_from("<IIQQQQ", data, table + 64 * number) for number in range(count)]
    pool = rows[names][4]
    found: Counter[str] = Counter()
    for name, _, _, _, _, size in rows:
        text = data[pool + name : data.index(b"\0", pool + name)].decode()
        if text.startswith(".text."):
            found[text.removeprefix(".text.")] += size
    return found


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".cubin")])
def test_code_of_each_function_is_its_section(name: str) -> None:
    data = stored(name)
    weight = weighed(data)
    assert {key.symbol: each.plain for key, each in weight.sums.items() if key.kind == "code"} == sections(data)


def zipped(*members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


MEMBERS = (("lib/a.so", LIBRARY), ("é/" + "long/" * 30 + "README.md", b"text\n" * 99), ("b.o", OBJECT))


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_archives(pack: Callable[..., bytes]) -> None:
    weight = weighed(pack(*MEMBERS))
    alone = kinds(weighed(LIBRARY)) + kinds(weighed(OBJECT))
    for kind in ("code", "PTX", "constants", "symbols", HOST):
        assert kinds(weight)[kind] == alone[kind], kind
    assert {key.member for key in weight.sums if key.section != OTHER} == {"lib/a.so", "b.o"}


@pytest.mark.parametrize("pack", [partial(zipped, compression=zipfile.ZIP_STORED), tarred])
def test_what_is_stored_as_it_is_weighs_in_an_archive_what_it_weighs_alone(pack: Callable[..., bytes]) -> None:
    def by_section(weight: Weight, member: str) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for key, measure in weight.sums.items():
            if key.member == member:
                found[key.form, key.arch, key.symbol, key.section] += measure.stored
        return found

    weight = weighed(pack(*MEMBERS))
    for name, data in (MEMBERS[0], MEMBERS[2]):
        assert by_section(weight, name) == by_section(weighed(data), "")


@pytest.mark.parametrize("pack", [gzip.compress, zstd().compress])
def test_compressed_files_and_archives_in_archives(pack: Callable[..., bytes]) -> None:
    inner = zipped(*MEMBERS, compression=zipfile.ZIP_STORED)
    plain = weighed(inner)
    weight = weighed(zipped(("inner.whl", pack(inner)), ("outer.a", stored("relocatable-13.5.a"))))
    assert kinds(weight)["code"] == kinds(plain)["code"] + kinds(weighed(stored("relocatable-13.5.a")))["code"]


def test_folders_of_an_archive_are_members_that_its_directory_names() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (("package/", b""), ("package/lib/", b""), ("package/lib/a.so", LIBRARY), ("end/", b"")):
            archive.writestr(name, data)
    weight = weighed(buffer.getvalue())
    assert not weight.damages
    assert kinds(weight)["code"] == kinds(weighed(LIBRARY))["code"]


def test_code_among_data_is_no_data() -> None:
    cubin = stored("sass-sm_80-13.5.cubin")
    weight = weighed(b"some cache" + cubin + b"\1" * 64 + cubin)
    assert kinds(weight)[HOST] == 10 + 64 + len(cubin), "a copy is not counted as code"
    assert kinds(weight)["code"] == sum(sections(cubin).values())


def test_damaged_files_keep_their_sums() -> None:
    chance = random.Random(5)
    packed = zipped(*MEMBERS)
    for data in (LIBRARY, OBJECT, packed, stored("fat-13.5.fatbin"), stored("relocatable-13.5.a")):
        for _ in range(25):
            spoilt = bytearray(data[: chance.choice((len(data), chance.randrange(1, len(data))))])
            for _ in range(chance.choice((1, 5, 100))):
                spoilt[chance.randrange(len(spoilt))] = chance.choice((0, 255, chance.randrange(256)))
            weighed(bytes(spoilt))


def test_duplicates_are_what_has_equal_code() -> None:
    whole = stored("plain-13.5.o")
    twice = zipped(("a.o", whole), ("b.o", whole))
    weight = weighed(twice, copies=True)
    found = duplicates([Weighed("twice", weight)])
    functions = [function for function in scanned(whole)[0] if not function.caller]
    digests = Counter(function.stats.digest for function in functions)
    assert {each.copies for each in found} == {2 * count for count in digests.values()}
    code = sum(copy.code_bytes for copy in weight.copies)
    assert sum(each.saved_bytes for each in found) == code - sum(
        next(copy.code_bytes for copy in weight.copies if copy.digest == digest) for digest in digests
    )
    assert sum(each.saved_stored_bytes for each in found) < len(twice)


@pytest.mark.parametrize(
    ("codes", "stored", "saved"),
    [
        ({"sm_80": "AB", "sm_86": "AB"}, 40, 20),
        ({"sm_80": "AB", "sm_86": "AC"}, 40, 10),
        ({"sm_80": "AB", "sm_86": "BA"}, 40, 20),
        ({"sm_80": "A", "sm_86": "AB", "sm_90": "CB"}, 0, 0),
    ],
)
def test_what_copies_cost(codes: dict[str, str], stored: int, saved: int) -> None:
    """Functions f0, f1, … of 100 bytes, each letter a code; ``stored``: bytes of all code of one arch in the file."""
    weight = Weight()
    for arch, digests in codes.items():
        for number, digest in enumerate(digests):
            key = Key(form="SASS", arch=arch, symbol=f"f{number}")
            weight.copies.append(Copy(key=key, digest=digest, entry=True, code_bytes=100))
            weight.add(key._replace(section=".text"), stored // 4, 100)
    found = [Weighed("a.so", weight)]
    assert sum(each.saved_stored_bytes for each in duplicates(found)) == saved


@pytest.mark.parametrize("level", _LEVELS)
def test_each_level_holds_all_bytes(level: str) -> None:
    weight = weighed(LIBRARY)
    whole = tree([Weighed("a.so", weight)], [level, "kind"])
    assert sum(row[-2] for row in whole.rows()) == len(LIBRARY)
    assert whole.stored_bytes == len(LIBRARY)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(LIBRARY)
    assert cli.main(["size", str(path), "--by", "arch,kind", "-f", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["stored_bytes"] == len(LIBRARY) == sum(each["stored_bytes"] for each in found["groups"])
    assert cli.main(["size", str(path), "-f", "csv"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "arch,kind,stored_bytes,bytes"
    assert sum(int(row.split(",")[-2]) for row in rows[1:]) == len(LIBRARY)
    assert cli.main(["size", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"{len(LIBRARY):,}" in said
    assert "100.0%" in said


def test_growth_is_the_difference_of_two_trees() -> None:
    old, new = Weighed("old.so", weighed(LIBRARY)), Weighed("new.so", weighed(zipped(*MEMBERS)))
    levels = ("kind", "arch")
    whole = tree([new], levels, [old])
    assert whole.growth == (
        tree([new], levels).stored_bytes - len(LIBRARY),
        tree([new], levels).bytes - tree([old], levels).bytes,
    )
    for this, other in ((0, new), (2, old)):
        alone = {row[:-2]: row[-2:] for row in tree([other], levels).rows()}
        assert {row[:3]: row[3 + this : 5 + this] for row in whole.rows() if any(row[3 + this : 5 + this])} == alone


def test_what_cannot_be_weighed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "build.log"
    text.write_text("ptxas info    : 0 bytes gmem\n")
    assert cli.main(["size", str(text)]) == 2
    assert "is not a binary" in capsys.readouterr().err
    broken = tmp_path / "broken.so"
    broken.write_bytes(OBJECT[: len(OBJECT) // 2])
    assert cli.main(["size", str(broken)]) == 2
    assert "do not fit" in capsys.readouterr().err


def test_a_file_without_gpu_code_is_one_sum() -> None:
    assert kinds(weighed(b"BC\xc0\xde" + b"\1" * 500)) == {HOST: 504}


def test_a_compressed_file_weighs_what_it_has_on_disk() -> None:
    weight, whole = weigh(LIBRARY, 1000, DEFAULT), weighed(LIBRARY)
    assert (weight.stored_bytes, weight.plain_bytes) == (1000, whole.plain_bytes)


def test_encrypted_intermediates_are_counted_as_they_claim() -> None:
    data = bytearray(stored("lz4-13.5.o"))
    start = data.find(fatbin.MAGIC)
    entry = next(iter(fatbin.entries(Window(bytes(data), start, len(data) - start))))
    assert isinstance(entry, fatbin.Entry)
    struct.pack_into("<H", data, entry.header.start, fatbin.LTO_IR)
    stored_bytes = entry.stored.size
    data[entry.stored.start : entry.stored.end] = b"\x0a" + random.Random(5).randbytes(stored_bytes - 1)
    weight = weighed(bytes(data))
    assert not weight.damages
    assert kinds(weight)["LTO-IR"] == entry.plain_bytes > stored_bytes
