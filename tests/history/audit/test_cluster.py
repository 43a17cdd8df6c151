"""Dask: a real scheduler and workers that are processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conftest import sized
from tests.history.audit.conftest import Reference
from tests.history.audit.support import AUDIT, customised, kept, run
from tests.history.audit.test_runs import waited_for


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """Address of a scheduler with so many workers, of one thread each; none is restarted."""
    scheduler_file = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    host = ["--host", "127.0.0.1", "--no-dashboard"]
    commands = [[*dask, "scheduler", *host, "--port", "0", "--scheduler-file", str(scheduler_file)]]
    worker = [*dask, "worker", "--scheduler-file", str(scheduler_file), *host, "--nthreads", "1", "--no-nanny"]
    commands += [[*worker, "--local-directory", str(folder / f"worker{number}")] for number in range(workers)]
    processes = [subprocess.Popen(command, **quiet) for command in commands]  # type: ignore[call-overload]
    try:
        address = ""
        while not address:  # the file is there before all of it is
            with suppress(ValueError):
                address = json.loads(waited_for(scheduler_file))["address"]
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.oracle
def test_two_workers_make_the_same_dataset_one_of_them_killed_too(reference: Reference, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    tree = reference.tree / sized("part0/3", "")
    alone, waiting = run(tree, tmp_path / "alone"), tree / "waits.log"
    with customised(tmp_path / "custom"):
        os.environ["GATE"] = str(gate)
        with cluster(tmp_path, 2) as address:
            summary = run(tree, tmp_path / "data", scheduler=address)
            assert summary.text() == alone.text()
            assert kept(tmp_path / "data") == kept(tmp_path / "alone")

            waiting.write_text("WAITS AT THE GATE\n" * 5000)  # read early, at least before the small ones
            command = [*AUDIT, tree, "--dataset", tmp_path / "killed", "--jobs", address]
            try:
                with subprocess.Popen(command, stdout=subprocess.PIPE) as going:
                    worker = int(waited_for(gate / "arrived").split()[1])
                    os.kill(worker, signal.SIGKILL)
                    (gate / "open").touch()
                    output, _ = going.communicate(timeout=120)
            finally:
                waiting.unlink()
            assert going.returncode == sized(0, 2), "one file is broken on purpose, and one log has gaps"
            assert output.decode().splitlines()[0] == summary.text().splitlines()[0]
            assert kept(tmp_path / "killed") == kept(tmp_path / "alone")
