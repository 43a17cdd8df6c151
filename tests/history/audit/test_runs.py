"""The same dataset, whoever makes it and whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spillscan import scan
from spillscan.history.audit import Plan, Selection, audit
from spillscan.history.dataset import open_dataset
from spillscan.model import Build
from spillscan.output.errors import InputError, SpillscanError
from tests.conftest import ROOT, kernel_to_json
from tests.history.audit.conftest import Reference
from tests.history.audit.support import AUDIT, customised, kept, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def waited_for(path: Path) -> str:
    """The text of a file that another process will write."""
    end = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < end, f"no {path.name}"
        time.sleep(0.01)
    return path.read_text()


def rows_of(build: Build) -> list[str]:
    return [json.dumps(kernel_to_json(kernel), sort_keys=True) for kernel in build.kernels]


def test_each_file_has_the_records_that_scan_gives_it(reference: Reference) -> None:
    dataset, (_, units) = open_dataset(str(reference.data)), kept(reference.data)
    read = [uri for uri, _, _, failure in units if not failure]
    alone = [kernel_to_json(kernel) for uri in read for kernel in scan(uri).named.kernels]
    assert [kernel_to_json(kernel) for _, kernel in dataset.records("v1")] == alone
    assert len(read) > 40
    assert {Path(uri).name: failure for uri, _, _, failure in units if failure}.keys() >= {"cut.o"}


def test_the_summary_counts_all(reference: Reference) -> None:
    summary, (_, units) = reference.summary, kept(reference.data)
    records = [kernel for _, kernel in open_dataset(str(reference.data)).records("v1")]
    assert summary.files.total() == sum(path.is_file() for path in reference.tree.rglob("*"))
    assert summary.files["read"] + summary.files["failed"] == len(units)
    assert summary.kernels == sum(kernel.role == "entry" for kernel in records)
    assert summary.reasons["no build output"] >= 2
    assert summary.reasons["empty"] == 1
    assert "cut.o" in summary.text()


def test_finished_files_are_not_read_again(reference: Reference, tmp_path: Path) -> None:
    before = kept(reference.data)
    commits = sorted(path.name for path in reference.data.rglob("*.json"))
    with customised(tmp_path / "custom"):
        again = run(reference.tree, reference.data)
    assert again.files["read"] == 0
    assert again.files["present"] == reference.summary.files["read"]
    assert again.files["failed"] == reference.summary.files["failed"], "what failed is reported again"
    assert kept(reference.data) == before
    assert sorted(path.name for path in reference.data.rglob("*.json")) == commits


def test_two_processes(reference: Reference, tmp_path: Path) -> None:
    summary = run(reference.tree, tmp_path / "data", processes=2)
    assert summary.text() == reference.summary.text()
    assert kept(tmp_path / "data") == kept(reference.data)


@pytest.mark.oracle
def test_changed_files_replace_their_records(tmp_path: Path) -> None:
    spill, plain = (ROOT / "fixtures" / "ptxas" / name for name in ("spill-13.0.log", "plain-13.0.log"))
    log = tmp_path / "tree" / "build.log"
    log.parent.mkdir()
    log.write_bytes(spill.read_bytes())
    (tmp_path / "tree" / "copy.log").write_bytes(spill.read_bytes())
    first = run(log.parent, tmp_path / "data")
    assert first.files["read"] == 2, "two names, two units: scan counts both, too"
    log.write_bytes(plain.read_bytes())
    assert run(log.parent, tmp_path / "data").files == {"read": 1, "present": 1}
    run(log.parent, tmp_path / "fresh")
    assert kept(tmp_path / "data") == kept(tmp_path / "fresh")


@pytest.mark.oracle
def test_a_file_that_kills_its_process_is_found_and_the_rest_is_read(reference: Reference, tmp_path: Path) -> None:
    poison = reference.tree / "part0" / "1" / "poison.log"
    poison.write_text("SWALLOWED POISON\n" * 1000)
    try:
        with customised(tmp_path / "custom"):
            summary = run(reference.tree, tmp_path / "data")
            (failed,) = [each for each in summary.failed if each.uri == str(poison)]
            assert failed.reason == (f"{poison} cannot be read: each process that read it died (out of memory?)")
            build, units = kept(tmp_path / "data")
            rest = [unit for unit in units if unit[0] != str(poison)]
            expected, expected_units = kept(reference.data)
            assert build.kernels == expected.kernels
            assert rest == expected_units
    finally:
        poison.unlink()


@pytest.mark.oracle
def test_a_worker_that_is_killed_from_outside_loses_nothing(reference: Reference, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    waiting = tmp_path / "tree" / "waits.log"
    waiting.parent.mkdir()
    log = (ROOT / "fixtures" / "ptxas" / "spill-13.0.log").read_text()
    for number in range(4):
        (waiting.parent / f"{number}.log").write_text(f"{log}{number}\n")
    waiting.write_text(f"WAITS AT THE GATE\n{log}")
    command = [*AUDIT, waiting.parent, "--dataset", tmp_path / "data"]
    with customised(tmp_path / "custom"):
        environment = {**os.environ, "GATE": str(gate)}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            reader = int(waited_for(gate / "arrived").split()[1])
            os.kill(reader, signal.SIGKILL)
            (gate / "open").touch()
            output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert output.decode().startswith("5 files read: ")
    run(waiting.parent, tmp_path / "calm")
    assert kept(tmp_path / "data") == kept(tmp_path / "calm")


@pytest.mark.oracle
def test_an_interrupted_audit_names_the_command_that_continues_it(reference: Reference, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    waiting = reference.tree / "part0" / "2" / "waits.log"
    waiting.write_text("WAITS AT THE GATE\n")
    # What is started in the background, as test runs may be, ignores Ctrl-C.
    heed = (
        "import signal, spillscan.cli; signal.signal(signal.SIGINT, signal.default_int_handler); spillscan.cli.entry()"
    )
    command = [sys.executable, "-c", heed, "history", "audit", reference.tree, "--label", "v1", "--jobs", "1"]
    try:
        with customised(tmp_path / "custom"):
            environment = {**os.environ, "GATE": str(gate)}
            with subprocess.Popen(
                [*command, "--dataset", tmp_path / "data"],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ) as process:
                reader = int(waited_for(gate / "arrived").split()[1])
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody gets it
                output, errors = process.communicate(timeout=120)
    finally:
        waiting.unlink()
    assert process.returncode == 2
    assert output == b""
    line = errors.decode()
    assert line.startswith("spillscan: interrupted after ")
    assert line.endswith(" files; run the same command again to continue\n")
    with pytest.raises(SpillscanError, match=r"v1: .* marks an audit that has not finished"):
        kept(tmp_path / "data")
    with pytest.raises(ProcessLookupError):
        os.kill(reader, 0)
    run(reference.tree, tmp_path / "data")
    assert kept(tmp_path / "data") == kept(reference.data)


def test_a_dataset_that_cannot_be_used_ends_the_audit(reference: Reference, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpillscanError, match="Not a directory"):
        run(reference.tree / "part0" / "1", tmp_path / "file" / "data")


def test_several_builds_at_once(tmp_path: Path) -> None:
    logs = ROOT / "fixtures" / "demo"
    plan = Plan(
        builds={"base": [str(logs / "base.log")], "head": [str(logs / "head.log")]},
        into=str(tmp_path / "data"),
        selection=Selection(),
        processes=1,
    )
    assert audit(plan).files["read"] == 2
    head = kept(tmp_path / "data", "head")[0]
    assert head.kernels == scan(str(logs / "head.log")).kernels


def test_no_scheduler_is_one_line() -> None:
    with pytest.raises(InputError, match="no Dask scheduler at nonsense"):
        run(ROOT / "fixtures" / "demo", "/nowhere/data", scheduler="nonsense")
