from __future__ import annotations

from collections.abc import Callable

import pytest

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.reading.disassembly.cuobjdump import SassListing
from tests.reading.disassembly.support import cut

Read = Callable[..., tuple[list[SassFunction], list[Issue]]]


@pytest.fixture
def read() -> Read:
    def _read(data: bytes, size: int = 1 << 20) -> tuple[list[SassFunction], list[Issue]]:
        items = list(SassListing(cut(data, size), "dump"))
        return (
            [item for item in items if isinstance(item, SassFunction)],
            [item for item in items if isinstance(item, Issue)],
        )

    return _read
