"""Reconvergence points of instructions that ptxas 13.5 writes for sm_120."""

from __future__ import annotations

from spillscan.reading.binary.instructions import Code
from tests.reading.machine.functions import functions


def test_a_reconvergence_point_is_in_the_function() -> None:
    """``BSSY.RECONVERGENT`` has a bit above its low word that is no part of the target."""
    seen = 0
    for (_, _, arch), text in functions().items():
        for row, each in enumerate((code := Code(text)).instructions):
            if each.name == "BSSY":
                assert each.target is not None
                assert row * 16 < each.target < code.rows * 16
                seen += arch == "sm_120"
    assert seen >= 3
