"""What names the stack pointer is found in the columns of a layout as it is in whole lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.reading.dumps import blocks as stack
from tests.reading.dumps.conftest import Read
from tests.reading.dumps.support import content, dumps


@pytest.mark.parametrize("path", dumps(), ids=lambda path: path.name)
def test_rows_are_lines(path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[tuple[bool, int]] = []
    close = stack.StackUses.close

    def compared(self: stack.StackUses) -> None:
        for text in self._text:
            found = list(stack._uses(text))
            assert found == list(stack._uses(text._replace(layout=None)))
            texts.append((text.layout is not None, len(found)))
        close(self)

    monkeypatch.setattr(stack.StackUses, "close", compared)
    read(content(path))
    assert any(in_rows and count for in_rows, count in texts)
