"""Truth table: the input to which an audit counts a kernel or an issue."""

from __future__ import annotations

import pytest

from spillscan.history.audit.worker import _by_input
from spillscan.model import Build, Issue, Kernel, KernelKey, Origin, Usage


@pytest.mark.parametrize(
    ("origin", "counted"),
    [
        ("b.log", "b.log"),
        ("a.log", "a.log"),
        ("lib.zip!inner/k.cubin", "lib.zip"),
        ("lib.zip!inner.zip!k.cubin", "lib.zip"),
        ("elsewhere.log", "a.log"),
        (None, "a.log"),
    ],
)
def test_counted_to(origin: str | None, counted: str) -> None:
    uris = ["a.log", "b.log", "lib.zip"]
    origins = (Origin(input="a.log" if origin is None else origin), Origin(input="b.log"))
    key = KernelKey(symbol="k", arch="sm_90", unit="")
    kernel = Kernel(key=key, role="entry", usage=Usage(), origins=() if origin is None else origins)
    issue = Issue(code="x", message="x", origin=None if origin is None else Origin(input=origin))
    parts = _by_input(Build(kernels=(kernel,), issues=(issue,)), uris)
    assert list(parts) == uris
    assert {uri: parts[uri] for uri in uris if parts[uri] != ([], [])} == {counted: ([kernel], [issue])}
