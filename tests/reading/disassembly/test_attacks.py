"""Damaged dumps and binaries: a finding that is gone leaves a gap, and no figure is silently another."""

from __future__ import annotations

from random import Random

import pytest

from tests.oracle.attacks import machine_code


@pytest.mark.parametrize("seed", range(4))
def test_attacks(seed: int) -> None:
    attacks = [machine_code.attack(Random(f"{seed}/{number}")) for number in range(40)]
    assert not [f"{each.damage}, {each.sample}: {each.failures}" for each in attacks if each.failures]
    assert len({each.damage for each in attacks}) > 8


@pytest.mark.parametrize("damage", ["", "NOP;", "\t\t..........\n"])
def test_the_check_sees_missing_findings(damage: str) -> None:
    """A reader that says nothing of lost functions is caught."""
    sample = next(each for each in machine_code.samples() if each.name.startswith("cuobjdump-sm_80-13"))
    assert list(machine_code.lost(sample, damage.encode().ljust(100), [], []))
