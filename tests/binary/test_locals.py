"""Code that a library holds several times is looked at once, but for each thing that is said of it."""

from __future__ import annotations

from collections import Counter

import zstandard
from msgspec import structs

from spillscan.binary import decode
from spillscan.binary.cubin import Cubin, Function
from spillscan.binary.figures import Locals
from spillscan.binary.window import Window
from spillscan.binary.words import table
from spillscan.model.code import LocalTraffic
from tests.conftest import ROOT

CUBINS = sorted((ROOT / "fixtures" / "binary").glob("*.cubin.zst"))


def _traffic(known: Locals, cubin: Cubin, function: Function, spills: decode.Spills) -> LocalTraffic:
    opcodes = table(cubin.number)
    assert opcodes is not None
    code = decode.code_of_stretch([function.code], opcodes, cubin.number)
    (counts,) = decode.of_stretch([function.code], code, opcodes)
    decoded = decode.Decoded(function, code, opcodes, cubin.number)
    return known.of(cubin.number, decoded, function, counts, cubin.parts_of(function), spills).traffic


def test_the_same_code_with_other_attributes() -> None:
    """What is annotated is a spill, and what is none depends on what the function is."""
    known = Locals()
    kinds, evidence = Counter[str](), Counter[str]()
    for path in CUBINS:
        cubin = Cubin(Window(zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())))
        for function in cubin.functions():
            addresses = tuple(each.address for each in _traffic(Locals(), cubin, function, ()).accesses)
            if not addresses:
                continue
            for role in ("entry", "function"):
                other = structs.replace(function, role=role)
                for spills in (None, (), addresses, addresses[:1]):
                    found, again, alone = (_traffic(each, cubin, other, spills) for each in (known, known, Locals()))
                    assert found is again
                    assert list(found.accesses) == list(alone.accesses)
                    assert (found.evidence, found.flow, found.frame) == (alone.evidence, alone.flow, alone.frame)
                    kinds.update(each.kind for each in found.accesses)
                    evidence[found.evidence] += 1
    assert set(kinds) == {"spill", "array", "frame", "unknown"}
    assert min(evidence["annotation"], evidence["last-use"]) > 20
