"""Builds in many environments: none passes of which a unit failed, spills or left no report; its healthy twin does."""

from __future__ import annotations

from random import Random

import pytest

from tests.conftest import read_log, sized
from tests.oracle.attacks import environments


@pytest.mark.parametrize("portion", range(sized(1, 6)))
def test_no_lost_unit_passes_unseen(portion: int) -> None:
    """A slice of ``python -m tests.oracle.attack_oracle``."""
    attacks = [environments.attack(Random(f"slice/{portion}/{number}")) for number in range(50)]
    assert not [f"{each.damage}, {each.sample}: {each.failures}" for each in attacks if each.failures]
    assert len({each.damage for each in attacks}) >= 6


def test_the_judge_passes_what_is_whole_alone() -> None:
    unit = next(unit for unit in environments.units() if not unit.spills)
    assert environments.judge("".join(unit.reports).encode())[0] == 0
    assert environments.judge(f"{unit.reports[0]}nvcc fatal   : Unknown option 'x'\n".encode())[0] == 2


@pytest.mark.parametrize("archs", [1, 2])
def test_each_arch_of_a_command_is_to_report(archs: int) -> None:
    """Two units for two archs each; the report of one of them for one arch is lost."""
    first, second = (unit for unit in environments.units()[:2])
    command = (
        "nvcc -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a -Xptxas -v -c {0}.cu -o {0}.o\n"
    )
    whole = command.format(first.name) + "".join(first.reports) + command.format(second.name)
    issues = {issue.code for issue in read_log(whole + "".join(second.reports[:archs])).issues}
    assert ("unreported-unit" in issues) == (archs == 1)
