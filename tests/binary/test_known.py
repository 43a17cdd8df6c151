"""Functions that a library holds several times are looked at once, but for each thing that cubins say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec import structs

from spillscan.binary import figures, stated
from spillscan.binary.containers import Image, Place
from spillscan.binary.cubin import Cubin, Function
from spillscan.binary.figures import Facts, Figures, Seen
from spillscan.binary.stated import Functions, Named
from spillscan.binary.window import DEFAULT, Window
from tests.binary.support import FOLDER, stored

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
                    other = facts._replace(role=role, spills=spills)
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
            yield (each._replace(figures=None), _said(each.figures)) if isinstance(each, Named) else str(each)

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
