"""What takes longer is read only if it is asked for."""

from __future__ import annotations

from spillscan import scan
from tests.conftest import FIXTURES


def test_what_takes_longer_is_read_where_it_is_asked_for() -> None:
    dump = FIXTURES / "sass" / "cuobjdump-sm_100a-12.8.sass.zst"
    for asked in ({}, {"operands": True}):
        found = [each.sass.operands for each in scan(dump, **asked).kernels if each.sass]
        assert found
        assert all((each is not None) is bool(asked) for each in found)
