from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.reading.dumps.cuobjdump import Dump
from spillscan.reading.dumps.cuobjdump import Path as Way

Read = Callable[..., tuple[list[SassFunction], list[Issue]]]


@pytest.fixture
def read() -> Read:
    def _read(data: bytes, path: Way = "rows", size: int = 1 << 20) -> tuple[list[SassFunction], list[Issue]]:
        items = list(Dump(io.BytesIO(data), "dump", path, size))
        return (
            [item for item in items if isinstance(item, SassFunction)],
            [item for item in items if isinstance(item, Issue)],
        )

    return _read
