"""Settings of CUDA sources with a real nvcc: equal to the edited source, or reported as tried in PTX."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.advice.sweep.compiling import Workshop
from spillscan.advice.sweep.units import units
from spillscan.output.errors import InputError
from tests.advice.sweep.sources import COMMANDS, PLAIN, SOURCES, Source, wrong_with
from tests.advice.sweep.support import NVCC
from tests.conftest import sized

pytestmark = pytest.mark.skipif(NVCC is None, reason="needs nvcc")


@pytest.mark.parametrize("name", sized(["attribute"], [*SOURCES]))
def test_sources(name: str, tmp_path: Path) -> None:
    assert wrong_with(SOURCES[name], NVCC or "", tmp_path) == []


@pytest.mark.oracle
@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name: str, tmp_path: Path) -> None:
    assert wrong_with(Source(PLAIN, command=COMMANDS[name]), NVCC or "", tmp_path) == []


def test_a_command_without_machine_code_is_refused(tmp_path: Path) -> None:
    """nvcc runs ptxas to check the PTX, without output."""
    (tmp_path / "k.cu").write_text(PLAIN)
    (unit,) = units(f"{NVCC} -arch=compute_90 -c {tmp_path / 'k.cu'}", [])
    with Workshop() as workshop, pytest.raises(InputError, match="produces no machine code"):
        workshop.modules(unit)
