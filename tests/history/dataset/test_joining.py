"""Files that an audit stores one by one are the build that `scan` reads."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from spillscan import scan
from spillscan.history.dataset import open_dataset
from spillscan.history.dataset.history import histories
from spillscan.history.dataset.schema import value
from spillscan.judging.policy.effective import Policy
from spillscan.model import Build
from spillscan.model.metrics import RANKED
from tests.conftest import FIXTURES, issue_to_json, kernel_to_json
from tests.history.dataset.support import append, command

FILES = {
    "log and object": "ptxas/callees-13.5.log binary/callees-13.5.cubin.zst",
    "log, object, listing": "sass/ptxas-13.5.log binary/sass-sm_80-13.5.cubin.zst sass/cuobjdump-sm_80-13.5.sass.zst",
    "log and resource listing": "sass/ptxas-13.5.log sass/res-usage-sm_80-13.5.txt",
    "object and library": "binary/flags-13.5.o.zst binary/flags-linked-13.5.so.zst",
    "log and objects of two archs": "ptxas/roles-kept-13.5.log binary/roles-kept-sm_90a-13.5.cubin.zst "
    "binary/roles-kept-sm_100a-13.5.cubin.zst",
    "link log, archive, library": "nvlink/link-13.5.log binary/relocatable-13.5.a.zst binary/linked-13.5.so.zst",
    "log and object of another build": "ptxas/spill-13.0.log binary/callees-12.4.cubin.zst",
}


def contents(build: Build) -> Counter[str]:
    return Counter(repr(each) for each in (*map(kernel_to_json, build.kernels), *map(issue_to_json, build.issues)))


@pytest.mark.parametrize("names", FILES.values(), ids=FILES)
def test_a_build_of_several_files_is_that_of_scan(names: str, tmp_path: Path) -> None:
    paths = sorted(FIXTURES / name for name in names.split())
    append(tmp_path, "v1", *paths)
    dataset, known = open_dataset(str(tmp_path)), scan(paths)
    assert contents(dataset.build("v1")) == contents(known)
    kernels = {(each.key.symbol, each.key.arch): each for each in known.kernels if each.role == "entry"}
    for each in histories(dataset, dataset.builds, "*", Policy()):
        kernel = kernels.get((each.kernel.key.symbol, each.kernel.key.arch))
        if kernel is not None and each.copies == 1:
            values = {metric.name: each.values(metric.name)[0] for metric in RANKED}
            assert values == {metric.name: value(metric, kernel) for metric in RANKED}
    (total,) = dataset.summary(dataset.builds)
    if "nvlink/link-13.5.log" not in names:
        assert total.kernels == sum(kernel.role == "entry" for kernel in known.kernels)
        assert total.spill_bytes == sum(sum(each.spills or ()) for each in known.kernels if each.role == "entry")


@pytest.mark.oracle
def test_a_real_build_is_that_of_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if not shutil.which("nvcc"):
        pytest.skip("tools: no nvcc")
    sources = ("rdc_a", "rdc_b", "demo")
    for name in sources:
        shutil.copy(FIXTURES / "sources" / f"{name}.cu", ".")
    for label, head in (("v1", ()), ("v2", ("-DHEAD",))):
        folder = Path(label)
        folder.mkdir()
        options = ("nvcc", "-arch=sm_90", "-lineinfo", "-Xptxas=-v", "-Xnvlink=-v", *head)
        objects = [f"{label}/{name}.o" for name in sources]
        calls = [(*options, "-c", f"{name}.cu", "-o", made) for name, made in zip(sources, objects, strict=True)]
        calls[:2] = [(*call, "-rdc=true") for call in calls[:2]]
        calls.append((*options, *objects, "-o", f"{label}/program"))
        log = "".join(subprocess.run(call, check=True, capture_output=True, text=True).stderr for call in calls)
        (folder / "build.log").write_text(log)
        assert command("history", "audit", folder, "--dataset", "data", "--label", label).status == 0
        assert contents(open_dataset("data").build(label)) == contents(scan(folder))
    shown = command("history", "--dataset", "data", "--launch", "*=256").out
    assert "register limit 128 → 64" in shown
    assert "blocks/SM" in shown
    by_files, by_data = (command("diff", "--why", *pair).out for pair in (("v1", "v2"), ("data/@v1", "data/@v2")))
    words = [[line for line in text.splitlines() if "lines:" not in line] for text in (by_files, by_data)]
    assert words[0] == words[1], "a dataset does not store the place of each access"
