"""Settings of CUDA sources with a real nvcc: equal to the edited source, or reported as tried in PTX."""

from __future__ import annotations

from pathlib import Path

import pytest

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
