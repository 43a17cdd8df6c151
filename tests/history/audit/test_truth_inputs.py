"""Truth table: to which of the files that were read together a kernel or an issue belongs. Typed by hand."""

from __future__ import annotations

import pytest

from spillscan.history.audit.worker import _by_input
from spillscan.model import Build, Issue, Kernel, KernelKey, Origin, Usage

FILES = ["a.log", "lib.a", "odd!name.o"]


@pytest.mark.parametrize(
    ("origins", "file", "why"),
    [
        (["a.log"], "a.log", "the file itself"),
        (["lib.a"], "lib.a", "another one"),
        (["lib.a!k.o"], "lib.a", "a member is of its archive"),
        (["lib.a!k.o!k.cubin"], "lib.a", "and so is what is packed inside it"),
        (["odd!name.o"], "odd!name.o", "the sign may stand in a file's own name"),
        (["lib.a!k.o", "a.log"], "lib.a", "the first that is named"),
        (["elsewhere.log"], "a.log", "what is of no file stands with the first"),
        ([], "a.log", "also what comes from nowhere"),
    ],
)
def test_each_kernel_and_issue_is_of_one_file(origins: list[str], file: str, why: str) -> None:
    places = tuple(Origin(input=name) for name in origins)
    kernel = Kernel(key=KernelKey(symbol="k", arch="sm_90"), role="entry", usage=Usage(), origins=places)
    issue = Issue(code="truncated", message="cut off", origin=places[0] if places else None)
    found = _by_input(Build(kernels=(kernel,), issues=(issue,)), FILES)
    assert list(found) == FILES
    assert found == {name: (([kernel], [issue]) if name == file else ([], [])) for name in FILES}, why
