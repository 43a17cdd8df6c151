"""Cost of histories grows linearly with the kernels: calls are counted at n, 2n and 4n."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spillscan.history.dataset import open_dataset
from spillscan.history.dataset.history import histories, names_of
from spillscan.history.dataset.regressions import occurrences, rows
from spillscan.judging.policy.effective import Policy
from spillscan.model import Kernel
from spillscan.model.metrics import TRACEABLE
from tests.conftest import sized
from tests.counting import MOST_GROWTH, growth
from tests.history.dataset.test_history import kernel, put

SIZE = sized(15, 150)
BUILDS = 3
FAMILIES: dict[str, Callable[[int, int], Kernel]] = {
    "figures that change": lambda at, build: kernel(f"_Z1kILi{at}EEvv", 40 + build),
    "families that change": lambda at, build: kernel(f"_Z{len(f'k{at}')}k{at}v", 40 + build, 8 * build),
    "names that change": lambda at, build: kernel(f"_Z1kILi{at}EEv{'ijm'[build]}", 40 + at),
    "families that come and go": lambda at, build: kernel(f"_Z{len(f'k{at}x{build}')}k{at}x{build}v", 40 + at % 200),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_history(family: str, tmp_path: Path) -> None:
    for times in (1, 2, 4):
        for build in range(BUILDS):
            put(tmp_path / str(times * SIZE), f"b{build}", *(FAMILIES[family](at, build) for at in range(times * SIZE)))

    def work(size: int) -> None:
        dataset = open_dataset(str(tmp_path / str(size)))
        found = histories(dataset, dataset.builds, "*", Policy(()), changing=True)
        names = names_of(dataset, dataset.builds, found)
        assert rows(occurrences(found, [each.name for each in TRACEABLE], Policy(())), names)

    assert growth(work, SIZE) <= MOST_GROWTH
