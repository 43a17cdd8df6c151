"""What names the stack pointer is the same in a listing and in the JSON of the same code."""

from __future__ import annotations

import pytest

from spillscan.model.code import SassFunction
from spillscan.reading import dumps as sass
from spillscan.reading.dumps.listing import Listing
from tests.conftest import FIXTURES


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120"])
def test_instructions_that_name_the_stack_pointer(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, dict[str, list[tuple[int, bytes]]]] = {}
    record = Listing.record

    def kept(self: Listing) -> SassFunction:
        of_file[self.symbol] = [(address, text.replace(b" ", b"").rstrip(b";")) for address, text in self.stack]
        return record(self)

    monkeypatch.setattr(Listing, "record", kept)
    for name in (f"nvdisasm-c-{arch}-13.5.sass", f"nvdisasm-annotate-{arch}-13.5.json"):
        of_file = found[name] = {}
        assert list(sass.reader([(FIXTURES / "sass" / name).read_bytes()], name))
    text, document = found.values()
    assert text == document
    assert sum(map(len, text.values())) > 3
