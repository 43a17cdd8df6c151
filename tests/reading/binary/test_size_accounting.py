"""Every byte of a file counts once, however its contents are nested."""

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
from spillscan.reading.binary.size_accounting import HOST, OTHER, Copy, Key, Sizes, sizes_of
from spillscan.reading.binary.window import DEFAULT, Window
from spillscan.reading.inputs.codecs import zstd
from spillscan.reports.sizes import SizedFile, duplicates, tree
from tests.reading.binary.support import FOLDER, scanned, stored

NAMES = sorted(path.name.removesuffix(".zst") for path in FOLDER.iterdir() if path.suffix == ".zst")
LIBRARY, OBJECT = stored("linked-13.5.so"), stored("zstd-13.5.o")


def measured(data: bytes, *, copies: bool = False) -> Sizes:
    sizes = sizes_of(data, len(data), DEFAULT, copies=copies)
    assert sum(each.stored for each in sizes.sums.values()) == len(data)
    assert all(each.stored >= 0 and each.plain >= 0 for each in sizes.sums.values())
    return sizes


def kinds(sizes: Sizes) -> Counter[str]:
    found: Counter[str] = Counter()
    for key, measure in sizes.sums.items():
        found[key.kind] += measure.plain
    return found


@pytest.mark.parametrize("name", NAMES)
def test_all_bytes_are_counted(name: str) -> None:
    sizes = measured(stored(name))
    assert not sizes.damages
    assert sizes.plain_bytes >= sizes.stored_bytes
    assert kinds(sizes)["code"] > 0


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
    sizes = measured(data)
    assert {key.symbol: each.plain for key, each in sizes.sums.items() if key.kind == "code"} == sections(data)


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
    sizes = measured(pack(*MEMBERS))
    alone = kinds(measured(LIBRARY)) + kinds(measured(OBJECT))
    for kind in ("code", "PTX", "constants", "symbols", HOST):
        assert kinds(sizes)[kind] == alone[kind], kind
    assert {key.member for key in sizes.sums if key.section != OTHER} == {"lib/a.so", "b.o"}


@pytest.mark.parametrize("pack", [partial(zipped, compression=zipfile.ZIP_STORED), tarred])
def test_a_stored_member_has_its_own_size_in_an_archive(pack: Callable[..., bytes]) -> None:
    def by_section(sizes: Sizes, member: str) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for key, measure in sizes.sums.items():
            if key.member == member:
                found[key.form, key.arch, key.symbol, key.section] += measure.stored
        return found

    sizes = measured(pack(*MEMBERS))
    for name, data in (MEMBERS[0], MEMBERS[2]):
        assert by_section(sizes, name) == by_section(measured(data), "")


@pytest.mark.parametrize("pack", [gzip.compress, zstd().compress])
def test_compressed_files_and_archives_in_archives(pack: Callable[..., bytes]) -> None:
    inner = zipped(*MEMBERS, compression=zipfile.ZIP_STORED)
    plain = measured(inner)
    sizes = measured(zipped(("inner.whl", pack(inner)), ("outer.a", stored("relocatable-13.5.a"))))
    assert kinds(sizes)["code"] == kinds(plain)["code"] + kinds(measured(stored("relocatable-13.5.a")))["code"]


def test_folders_of_an_archive_are_members_that_its_directory_names() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (("package/", b""), ("package/lib/", b""), ("package/lib/a.so", LIBRARY), ("end/", b"")):
            archive.writestr(name, data)
    sizes = measured(buffer.getvalue())
    assert not sizes.damages
    assert kinds(sizes)["code"] == kinds(measured(LIBRARY))["code"]


def test_code_among_data_is_no_data() -> None:
    cubin = stored("sass-sm_80-13.5.cubin")
    sizes = measured(b"some cache" + cubin + b"\1" * 64 + cubin)
    assert kinds(sizes)[HOST] == 10 + 64 + len(cubin), "a copy is not counted as code"
    assert kinds(sizes)["code"] == sum(sections(cubin).values())


def test_damaged_files_keep_their_sums() -> None:
    chance = random.Random(5)
    packed = zipped(*MEMBERS)
    for data in (LIBRARY, OBJECT, packed, stored("fat-13.5.fatbin"), stored("relocatable-13.5.a")):
        for _ in range(25):
            spoilt = bytearray(data[: chance.choice((len(data), chance.randrange(1, len(data))))])
            for _ in range(chance.choice((1, 5, 100))):
                spoilt[chance.randrange(len(spoilt))] = chance.choice((0, 255, chance.randrange(256)))
            measured(bytes(spoilt))


def test_duplicates_have_equal_code() -> None:
    whole = stored("plain-13.5.o")
    twice = zipped(("a.o", whole), ("b.o", whole))
    sizes = measured(twice, copies=True)
    found = duplicates([SizedFile("twice", sizes)])
    functions = [function for function in scanned(whole)[0] if not function.caller]
    digests = Counter(function.stats.digest for function in functions)
    assert {each.copies for each in found} == {2 * count for count in digests.values()}
    code = sum(copy.code_bytes for copy in sizes.copies)
    assert sum(each.saved_bytes for each in found) == code - sum(
        next(copy.code_bytes for copy in sizes.copies if copy.digest == digest) for digest in digests
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
def test_cost_of_copies(codes: dict[str, str], stored: int, saved: int) -> None:
    """Functions f0, f1, … of 100 bytes, each letter a code; ``stored``: bytes of all code of one arch in the file."""
    sizes = Sizes()
    for arch, digests in codes.items():
        for number, digest in enumerate(digests):
            key = Key(form="SASS", arch=arch, symbol=f"f{number}")
            sizes.copies.append(Copy(key=key, digest=digest, entry=True, code_bytes=100))
            sizes.add(key._replace(section=".text"), stored // 4, 100)
    found = [SizedFile("a.so", sizes)]
    assert sum(each.saved_stored_bytes for each in duplicates(found)) == saved


@pytest.mark.parametrize("level", _LEVELS)
def test_each_level_holds_all_bytes(level: str) -> None:
    sizes = measured(LIBRARY)
    whole = tree([SizedFile("a.so", sizes)], [level, "kind"])
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
    output = capsys.readouterr().out
    assert f"{len(LIBRARY):,}" in output
    assert "100.0%" in output


def test_growth_is_the_difference_of_two_trees() -> None:
    old, new = SizedFile("old.so", measured(LIBRARY)), SizedFile("new.so", measured(zipped(*MEMBERS)))
    levels = ("kind", "arch")
    whole = tree([new], levels, [old])
    assert whole.growth == (
        tree([new], levels).stored_bytes - len(LIBRARY),
        tree([new], levels).bytes - tree([old], levels).bytes,
    )
    for this, other in ((0, new), (2, old)):
        alone = {row[:-2]: row[-2:] for row in tree([other], levels).rows()}
        assert {row[:3]: row[3 + this : 5 + this] for row in whole.rows() if any(row[3 + this : 5 + this])} == alone
    sides = [[SizedFile(f"app-1.{at}-py3-none-any.whl", new.sizes)] for at in (0, 1)]
    assert all(row[-4:-2] == row[-2:] for row in tree(sides[1], ("file", "member", "object"), sides[0]).rows())


def test_files_without_a_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "build.log"
    text.write_text("ptxas info    : 0 bytes gmem\n")
    assert cli.main(["size", str(text)]) == 2
    assert "is not a binary" in capsys.readouterr().err
    broken = tmp_path / "broken.so"
    broken.write_bytes(OBJECT[: len(OBJECT) // 2])
    assert cli.main(["size", str(broken)]) == 2
    assert "bytes expected" in capsys.readouterr().err


def test_a_file_without_gpu_code_is_one_sum() -> None:
    assert kinds(measured(b"BC\xc0\xde" + b"\1" * 500)) == {HOST: 504}


def test_a_compressed_file_has_its_size_on_disk() -> None:
    sizes, whole = sizes_of(LIBRARY, 1000, DEFAULT), measured(LIBRARY)
    assert (sizes.stored_bytes, sizes.plain_bytes) == (1000, whole.plain_bytes)


def test_encrypted_intermediates_are_counted_as_they_claim() -> None:
    data = bytearray(stored("lz4-13.5.o"))
    start = data.find(fatbin.MAGIC)
    entry = next(iter(fatbin.entries(Window(bytes(data), start, len(data) - start))))
    assert isinstance(entry, fatbin.Entry)
    struct.pack_into("<H", data, entry.header.start, fatbin.LTO_IR)
    stored_bytes = entry.stored.size
    data[entry.stored.start : entry.stored.end] = b"\x0a" + random.Random(5).randbytes(stored_bytes - 1)
    sizes = measured(bytes(data))
    assert not sizes.damages
    assert kinds(sizes)["LTO-IR"] == entry.plain_bytes > stored_bytes
