"""Functions that a library holds several times are looked at once, but for each thing that cubins say of them."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable

import pytest
from msgspec import structs

from spillscan.model import Issue, Origin
from spillscan.model.code import SassFunction
from spillscan.reading.binary import attributes, function_records, records
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.function_records import Analyzed, Facts, facts_of
from spillscan.reading.binary.images import Image, Place
from spillscan.reading.binary.records import MemberReader, Record
from spillscan.reading.binary.window import DEFAULT, DamageError, Limits, Window
from tests.reading.binary.support import FOLDER, stored

CUBINS = sorted(path.stem for path in FOLDER.glob("*.cubin.zst"))


def _image(name: str) -> Image:
    window = Window(stored(name))
    return Image(window, Place(), window)


def _reader(limits: Limits = DEFAULT) -> MemberReader:
    return MemberReader("file", limits, 1 << 24)


def _said(record: Record) -> object:
    """Everything, accesses one by one."""
    if not isinstance(record, SassFunction):
        return record
    local = record.stats.local
    rest = structs.replace(record, stats=structs.replace(record.stats, local=structs.replace(local, accesses=())))
    return rest, list(local.accesses)


def _looked(function: Function, facts: Facts) -> Analyzed:
    return next(function_records.analyze([(function.code, facts)], facts.number, Origin(input="file")))


def test_the_same_code_with_other_attributes() -> None:
    """Annotated accesses are spills; the class of the others depends on the function's kind."""
    known: dict[Facts, Analyzed] = {}
    kinds, evidence = Counter[str](), Counter[str]()
    for name in CUBINS:
        cubin = Cubin(Window(stored(name)))
        for function in cubin.functions():
            facts = facts_of(cubin, function)
            addresses = tuple(each.address for each in _looked(function, facts).record.stats.local.accesses)
            if not addresses:
                continue
            for role in ("entry", "function"):
                for spills in (None, (), addresses, addresses[:1]):
                    other = structs.replace(facts, role=role, spills=spills)
                    alone = _looked(function, other)
                    found = known.setdefault(other, alone)
                    each_found, each_alone = ((seen.record, *seen.callees) for seen in (found, alone))
                    assert [*map(_said, each_found)] == [*map(_said, each_alone)]
                    assert found[2:] == alone[2:]
                    for each in each_found:
                        kinds.update(access.kind for access in each.stats.local.accesses)
                        evidence[each.stats.local.evidence] += 1
    assert set(kinds) == {"spill", "array", "frame", "unknown"}
    assert min(evidence["annotation"], evidence["last-use"]) > 20


def test_all_cubins_again_as_alone() -> None:
    """One that has seen all of them says of each what one says that has seen none; what is equal is one record."""
    known = _reader()
    several = 0
    for name in CUBINS:
        image = _image(name)
        first, alone, again = (reader.read((0, image)).records for reader in (known, _reader(), known))
        assert [*map(_said, first)] == [*map(_said, alone)] == [*map(_said, again)]
        pairs = zip(first, again, strict=True)
        several += sum(
            one.stats is other.stats
            for one, other in pairs
            if isinstance(one, SassFunction) and isinstance(other, SassFunction)
        )
    assert several > 200


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = _reader()
    for name in CUBINS[:20]:
        reader.read((0, _image(name)))
    assert len(reader._known) > 20
    monkeypatch.setattr(records, "_MOST_KNOWN_BYTES", 5 * 1500)
    for name in CUBINS[20:40]:
        reader.read((0, _image(name)))
    assert len(reader._known) <= max(len(list(Cubin(Window(stored(name))).functions())) for name in CUBINS)


def test_a_file_holds_no_more_functions_than_it_may() -> None:
    """A cubin above the limit is left out as a whole and reported, as are those after it, in any process."""
    image = _image(CUBINS[0])
    several = len(_reader().read((0, image)).records)
    assert several >= 1
    for ahead in (True, False):
        reader = MemberReader("file", structs.replace(DEFAULT, free_functions=2 * several), 0)
        read = [reader.read((number, image)) for number in range(4)] if ahead else []
        found = [reader.accept(image, read[at] if ahead else reader.read((at, image))).records for at in range(4)]
        assert [len(each) for each in found] == [several, several, 1, 1]
        for (issue,) in found[2:]:
            assert isinstance(issue, Issue)
            assert "more functions than a file of this size can have" in issue.message


def _sections() -> list[bytes]:
    """Attributes of functions, each once."""
    found: dict[bytes, None] = {}
    for name in CUBINS:
        for function in Cubin(Window(stored(name))).functions():
            if function.info is not None:
                found[function.info.copy(0, function.info.size, "attributes")] = None
    return list(found)


def _outcome(read: Callable[[], object]) -> object:
    try:
        return read()
    except DamageError as error:
        return error.what, error.offset


def _by_hand(data: bytes, start: int) -> list[tuple[int, int, bytes]]:
    """All records of a section at this offset of its file."""
    found, at = [], 0
    while at + 4 <= len(data):
        form, attribute, value = data[at], data[at + 1], data[at + 2] + 256 * data[at + 3]
        size = value if form == 4 else 0
        if form not in (1, 2, 3, 4):
            raise DamageError(f".nv.info record of unknown format {form}", start + at + 4)
        if at + 4 + size > len(data):
            raise DamageError(f".nv.info attribute {attribute:#x} of {value} bytes is truncated", start + at + 4)
        found.append((attribute, value, data[at + 4 : at + 4 + size]))
        at += 4 + size
    return found


def test_records_are_read_as_by_hand() -> None:
    """Also for damaged sections, at any offset."""
    rng = random.Random(2511)
    sections = _sections()
    assert len(sections) > 100
    damaged = 0
    for at in range(20_000):
        data = bytearray(rng.choice(sections))
        for _ in range(at % 4):
            place = rng.randrange(len(data))
            if rng.random() < 0.3:
                del data[place : place + rng.randint(1, 9)]
            else:
                data[place] = rng.choice((0, 1, 2, 3, 4, 5, 0x10, 0x55, 0xFF, rng.randrange(256)))
            data = data or bytearray(b"\4")
        whole, before = bytes(data), 4 * rng.randrange(3)
        window = Window(b"\xee" * before + whole + b"\4\x55\x10\0", before, len(whole))
        found = _outcome(lambda window=window: attributes.records(window, range(256)))
        expected = _outcome(lambda whole=whole, before=before: _by_hand(whole, before))
        damaged += isinstance(expected, tuple)
        assert found == expected
        wanted = {rng.randrange(256), 0x55, 0x4C}
        some = _outcome(lambda window=window, wanted=wanted: attributes.records(window, wanted))
        assert some == (expected if isinstance(expected, tuple) else [each for each in expected if each[0] in wanted])
    assert damaged > 1000


def test_values_of_symbols_are_read_as_records() -> None:
    rng = random.Random(2512)
    for at in range(5_000):
        heads = rng.choices(
            (0x08002F04, 0x00082F04, 0x00081104, 0x00081204, 0x00082304, 0x000C2F04, 0x00010103), k=at % 9
        )
        data = b"".join(struct.pack("<3I", head, rng.randrange(9), rng.randrange(300)) for head in heads)
        window = Window(data[: len(data) - (at % 7 == 6)])

        def slowly(window: Window = window) -> dict[int, dict[int, int]]:
            found: dict[int, dict[int, int]] = {0x2F: {}, 0x11: {}, 0x12: {}}
            for attribute, _, payload in _by_hand(window.copy(0, window.size, "attributes"), 0):
                if attribute in found and len(payload) == 8:
                    number, value = struct.unpack("<2I", payload)
                    found[attribute][number] = value
            return found

        assert _outcome(lambda window=window: attributes.of_module(window)) == _outcome(slowly)


def test_annotations_of_many_spills() -> None:
    for count in (3, 4000):
        data = struct.pack("<BBH", 4, 0x55, 8 * count) + struct.pack("<2I", 1, 16) * count
        assert attributes.of_function(Window(data)).spills == (16,) * count
