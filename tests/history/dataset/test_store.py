"""Object stores, and packages that are not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from spillscan import scan
from spillscan.history.dataset import load_build, open_dataset
from spillscan.history.dataset.merge import merge
from spillscan.history.dataset.store import Store
from spillscan.output.errors import InputError
from tests.conftest import ROOT
from tests.history.dataset.support import BASE, HEAD, append, command, finished, plain


def test_a_store_of_fsspec_is_as_good_as_a_folder(tmp_path: Path) -> None:
    for root in ("memory://bucket/data", str(tmp_path / "data"), f"file://{tmp_path}/other"):
        append(root, "v1", BASE)
        append(root, "v1", HEAD)
        append(root, "v1", HEAD, BASE)
        append(root, "v2", HEAD)
        before = plain(load_build(root, "v1"))
        assert len(finished(root, "v1")) == 2
        merge(root, ["v1", "v2"])
        assert plain(load_build(root, "v1")) == before
        asked = "SELECT label, arch, count(*) FROM kernels GROUP BY ALL ORDER BY ALL"
        assert open_dataset(root).query(asked).fetchall() == [
            ("v1", "sm_80", 11),
            ("v1", "sm_90a", 11),
            ("v2", "sm_80", 6),
            ("v2", "sm_90a", 6),
        ]
        assert command("diff", f"{root}/@v2", HEAD) == command("diff", HEAD, HEAD)
        assert plain(scan(f"{root}/@v2"))["kernels"] == plain(scan(HEAD))["kernels"]
        assert len(Store(root).list("commits")) == 2


def test_a_store_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    append("memory://flaky", "v1", BASE)
    kind = type(fsspec.filesystem("memory"))

    def fail(*_: object, **__: object) -> None:
        raise OSError("connection reset")

    monkeypatch.setattr(kind, "pipe_file", fail)
    with pytest.raises(InputError, match="cannot write memory://flaky: connection reset"):
        append("memory://flaky", "v2", HEAD)
    monkeypatch.undo()
    assert open_dataset("memory://flaky").labels == ("v1",)
    with pytest.raises(InputError, match="cannot open nosuch://x"):
        open_dataset("nosuch://x")


@pytest.mark.parametrize("missing", ["pyarrow", "duckdb"])
def test_a_missing_package_is_named(missing: str, tmp_path: Path) -> None:
    append(tmp_path, "v1", BASE)
    script = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from spillscan.cli import main\n"
        f"sys.exit(main(['history', 'query', 'SELECT 1', '--dataset', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert (
        done.stderr == f"spillscan: a dataset needs {missing}, which is not installed; pip install 'spillscan[data]'\n"
    )


def test_unrequested_packages_are_not_imported() -> None:
    script = (
        "import sys, spillscan.cli, spillscan.reading.pipeline, spillscan.history.dataset\n"
        "spillscan.commands.build_parser()\n"
        "print(*sorted({'pyarrow', 'duckdb', 'fsspec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "\n"
