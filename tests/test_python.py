"""Python API: the stable names, the document's examples, assertions, notebooks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import spillscan
from tests.conftest import FIXTURES, ROOT, run
from tests.history.dataset.support import append

DEMO = FIXTURES / "demo"
DOCUMENT = ROOT / "docs" / "python.md"
LIBRARY = FIXTURES / "binary" / "linked-13.5.so.zst"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the document's inputs."""
    (tmp_path / "build.log").write_bytes((DEMO / "head.log").read_bytes())
    (tmp_path / "libgemm.so").symlink_to(LIBRARY)
    run("scan", DEMO / "base.log", "-f", f"json:{tmp_path / 'main.json'}")
    for label, log in (("v1", "base.log"), ("v2", "head.log")):
        append(tmp_path / "data", label, DEMO / log)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_run(folder: Path) -> None:
    scope: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S):
        exec(code, scope)
    assert len(scope["build"].kernels) == 12  # type: ignore[attr-defined]
    assert len(scope["worse"]) == 2  # type: ignore[arg-type]


def test_the_document_lists_names_and_their_members() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    named: dict[str, str] = {}
    for names, about in re.findall(r"^\| (`.*?) \| (.*) \|$", text[text.index("## Names") :], re.M):
        named |= dict.fromkeys(re.findall(r"`(\w+)", names), about)
    assert set(named) == set(spillscan.__all__)
    for name, about in named.items():
        value = getattr(spillscan, name)
        assert inspect.getdoc(value), name
        if name in ("Build", "Kernel", "KernelKey", "Issue", "Change", "Finding"):
            attributes = set(re.findall(r"`(\w+)", about)) - ({"to_pandas"} if name == "Change" else set())
            assert attributes <= set(dir(value)), name


# ---- assertions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("built", "options"),
    [
        (DEMO / "base.log", {}),
        (DEMO / "head.log", {"kernel": "softmax*"}),
        (DEMO / "head.log", {"kernel": "gemm*", "max_spill_bytes": 520}),
        ([DEMO / "base.log", FIXTURES / "ptxas" / "plain-13.0.log"], {}),
    ],
)
def test_kernels_without_spills_pass(built: Path | Sequence[Path], options: dict[str, object]) -> None:
    spillscan.assert_no_spills(built, **options)  # type: ignore[arg-type]
    spillscan.assert_no_spills(spillscan.scan(built), **options)  # type: ignore[arg-type]


def test_spilling_kernels_are_named_with_values() -> None:
    with pytest.raises(AssertionError) as error:
        spillscan.assert_no_spills(DEMO / "head.log", kernel="gemm*")
    assert str(error.value).splitlines() == [
        "2 of 4 kernels spill",
        "  model::gemm<8> (sm_80) spills 304 B stores, 216 B loads",
        "  model::gemm<8> (sm_90a) spills 304 B stores, 216 B loads",
    ]
    with pytest.raises(AssertionError, match="1 of 2 kernels spill"):
        spillscan.assert_no_spills(DEMO / "head.log", kernel="gemm*", arch="sm_80")


def test_unknown_spills_do_not_pass(tmp_path: Path) -> None:
    torn = tmp_path / "torn.log"
    torn.write_text((DEMO / "base.log").read_text()[:-200])
    with pytest.raises(AssertionError, match="unknown whether kernels spill"):
        spillscan.assert_no_spills(torn)
    with pytest.raises(spillscan.InputError, match="no kernel matches 'gem' for sm_80"):
        spillscan.assert_no_spills(DEMO / "base.log", kernel="gem", arch="sm_80")
    with pytest.raises(spillscan.InputError):
        spillscan.assert_no_spills(tmp_path / "none.so")


# ---- frames --------------------------------------------------------------------------------------------------------


def test_changes_become_a_frame() -> None:
    base, head = (spillscan.scan(DEMO / f"{name}.log") for name in ("base", "head"))
    frame = spillscan.diff(base, head).to_pandas()
    assert frame.query("metric == 'spill_store_bytes'").after.tolist() == [304, 304]
    assert frame.query("state == 'added'").metric.isna().all()
