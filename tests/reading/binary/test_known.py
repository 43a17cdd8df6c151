"""Functions that a library holds several times are looked at once, but for each thing that cubins say of them."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from msgspec import structs

from spillscan.reading.binary import cubin as cubins
from spillscan.reading.binary import figures, stated
from spillscan.reading.binary.containers import Image, Place
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.figures import Facts, Figures, Seen
from spillscan.reading.binary.stated import Functions, Named
from spillscan.reading.binary.window import DEFAULT, DamageError, Window
from tests.reading.binary.support import FOLDER, stored

CUBINS = sorted(path.stem for path in FOLDER.glob("*.cubin.zst"))


def _image(name: str) -> Image:
    window = Window(stored(name))
    return Image(window, Place(), window)


def _functions() -> Functions:
    return Functions(DEFAULT, 1 << 24)


def _said(figures_: Figures) -> object:
    """Everything, accesses one by one."""
    local = figures_.local
    rest = structs.replace(figures_, local=None)
    return rest, local and (list(local.accesses), local.evidence, local.flow, local.frame, local.cumulative)


def _looked(function: Function, facts: Facts) -> Seen:
    return next(figures.look([(function, facts)], facts.number))


def test_the_same_code_with_other_attributes() -> None:
    """What is annotated is a spill, and what is none depends on what the function is."""
    known: dict[Facts, Seen] = {}
    kinds, evidence = Counter[str](), Counter[str]()
    for name in CUBINS:
        cubin = Cubin(Window(stored(name)))
        for function in cubin.functions():
            facts = figures.facts_of(cubin, function)
            ((_, own), *_) = _looked(function, facts)
            addresses = tuple(each.address for each in own.local.accesses) if own.local else ()
            if not addresses:
                continue
            for role in ("entry", "function"):
                for spills in (None, (), addresses, addresses[:1]):
                    other = structs.replace(facts, role=role, spills=spills)
                    alone = _looked(function, other)
                    found = known.setdefault(other, alone)
                    assert [(symbol, _said(each)) for symbol, each in found] == [
                        (symbol, _said(each)) for symbol, each in alone
                    ]
                    for _, each in found:
                        if each.local is not None:
                            kinds.update(access.kind for access in each.local.accesses)
                            evidence[each.local.evidence] += 1
    assert set(kinds) == {"spill", "array", "frame", "unknown"}
    assert min(evidence["annotation"], evidence["last-use"]) > 20


def test_all_cubins_again_as_alone() -> None:
    """One that has seen all of them says of each what one says that has seen none; what is equal is one record."""
    known = _functions()
    several = 0

    def said(functions: Functions, image: Image) -> Iterator[object]:
        for each in functions.of(image):
            yield (structs.replace(each, figures=None), _said(each.figures)) if isinstance(each, Named) else str(each)

    for name in CUBINS:
        image = _image(name)
        first, alone = list(said(known, image)), list(said(_functions(), image))
        assert list(said(known, image)) == first == alone
        pairs = zip(known.of(image), known.of(image), strict=True)
        several += sum(one.figures is other.figures for one, other in pairs if isinstance(one, Named))
    assert several > 200


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = _functions()
    for name in CUBINS[:20]:
        list(functions.of(_image(name)))
    assert len(functions._known) > 20
    monkeypatch.setattr(stated, "_MOST_KNOWN", 5)
    for name in CUBINS[20:40]:
        list(functions.of(_image(name)))
    assert len(functions._known) <= 5


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


def test_the_records_that_matter_say_what_all_say() -> None:
    """Also of damaged sections, and wherever in a file they stand."""
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
        found = _outcome(lambda window=window: cubins.of_function(window))
        expected = _outcome(lambda whole=whole: cubins._of_records.__wrapped__(whole))
        if isinstance(expected, tuple):
            damaged += 1
            expected = expected[0], expected[1] + before
        assert found == expected
    assert damaged > 1000


def test_pairs_are_read_as_records() -> None:
    rng = random.Random(2512)
    for at in range(5_000):
        heads = rng.choices(
            (0x08002F04, 0x00082F04, 0x00081104, 0x00081204, 0x00082304, 0x000C2F04, 0x00010103), k=at % 9
        )
        data = b"".join(struct.pack("<3I", head, rng.randrange(9), rng.randrange(300)) for head in heads)
        window = Window(data[: len(data) - (at % 7 == 6)])

        def slowly(window: Window = window) -> dict[int, dict[int, int]]:
            found: dict[int, dict[int, int]] = {attribute: {} for attribute in cubins._PER_FUNCTION}
            for attribute, _, payload in cubins.records(window, cubins._PER_FUNCTION):
                if len(payload) == 8:
                    number, value = struct.unpack("<2I", payload)
                    found[attribute][number] = value
            return found

        assert _outcome(lambda window=window: cubins.of_module(window)) == _outcome(slowly)


def test_annotations_of_many_spills_are_not_remembered() -> None:
    cubins._of_records.cache_clear()
    few, many = (struct.pack("<BBH", 4, 0x55, 8 * count) + struct.pack("<2I", 1, 16) * count for count in (3, 4000))
    for data in (few, many):
        info = cubins.of_function(Window(data))
        assert info.spills == (16,) * (len(data) // 8)
    assert cubins._of_records.cache_info().currsize == 1
