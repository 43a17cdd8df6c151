"""Code that a library holds several times is looked at once, but for each thing that is said of it."""

from __future__ import annotations

from collections import Counter

from msgspec import structs

from spillscan.binary import decode
from spillscan.binary.cubin import Cubin, Function
from spillscan.binary.window import Window
from spillscan.binary.words import table
from spillscan.model.code import LocalTraffic
from tests.binary.support import FOLDER, stored

CUBINS = sorted(path.stem for path in FOLDER.glob("*.cubin.zst"))


def _traffic(known: decode.Locals, cubin: Cubin, function: Function, spills: decode.Spills) -> LocalTraffic:
    opcodes = table(cubin.number)
    assert opcodes is not None
    code = decode.code_of_stretch([function.code], opcodes, cubin.number)
    (counts,) = decode.of_stretch([function.code], code, opcodes)
    decoded = decode.Decoded(function, code, opcodes, cubin.number)
    parts = cubin.parts_of(function)
    callees = tuple(begin for begin, name in parts.items() if name)
    return known.of(decoded, function, counts, tuple(parts), callees, spills).traffic


def test_the_same_code_with_other_attributes() -> None:
    """What is annotated is a spill, and what is none depends on what the function is."""
    known = decode.Locals()
    kinds, evidence = Counter[str](), Counter[str]()
    for name in CUBINS:
        cubin = Cubin(Window(stored(name)))
        for function in cubin.functions():
            addresses = tuple(each.address for each in _traffic(decode.Locals(), cubin, function, ()).accesses)
            if not addresses:
                continue
            for role in ("entry", "function"):
                other = structs.replace(function, role=role)
                for spills in (None, (), addresses, addresses[:1]):
                    found, again, alone = (
                        _traffic(each, cubin, other, spills) for each in (known, known, decode.Locals())
                    )
                    assert found is again
                    assert list(found.accesses) == list(alone.accesses)
                    assert (found.evidence, found.flow, found.frame) == (alone.evidence, alone.flow, alone.frame)
                    kinds.update(each.kind for each in found.accesses)
                    evidence[found.evidence] += 1
    assert set(kinds) == {"spill", "array", "frame", "unknown"}
    assert min(evidence["annotation"], evidence["last-use"]) > 20
