"""Guards: inputs that once hid a spill, a failed build or a gap, or failed a gate for nothing.

- ``attacks.yaml`` lists commands over the files of ``attacks``, each of which hides something;
- ``environment.tar.xz`` holds builds whose environment varies: prefixes of CI systems, failures in any language and
  at any place, encodings, folders and containers of binaries, pairs of builds. A case is a folder with a command,
  the exit statuses that are right and why;
- ``lost-units.tar.xz`` holds builds of two to four units by every build system in every environment: one unit fails, is
  cut off, leaves no report or spills. Each has a healthy twin;
- ``builds`` holds logs of real projects with their counts, exit statuses and pairs.

``make test`` runs the attacks and a sample of the rest, ``make oracle`` everything.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import subprocess
import tarfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import COMMAND, run, sized

HERE = Path(__file__).resolve().parent
ARCHIVES = (HERE / "environment.tar.xz", HERE / "lost-units.tar.xz")
BUILDS = json.loads((HERE / "builds" / "cases.json").read_text(encoding="utf-8"))
FAMILIES = (
    "A1-prefix",
    "A2-prefix-mixed",
    "A3-prefix-stackline",
    "B1-failed-mid-cmds",
    "B2-failed-mid",
    "B3-failed-end",
    "B4-failed-end-chatter",
    "B5-failed-head-long",
    "C-enc",
    "C-wrap",
    "D-bin",
    "E-diff",
    "F-baseline",
    "F-policy",
    "G-lost-unit",
    "G-whole",
    "R-real",
)
KNOWN = yaml.safe_load((HERE / "known.yaml").read_text(encoding="utf-8"))
"""Cases by family that are answered wrongly, and why nothing better is known."""
EVERY = sized(20, 1)
"""One case of so many is run."""
_SHELL = re.compile(r"[;&|<>*?'\"]|\$(?!S )")
"""Signs that only a shell understands."""


def _attacks() -> list[str]:
    table = yaml.safe_load((HERE / "attacks.yaml").read_text(encoding="utf-8"))
    return [f"{command} {words}" for command, inputs in table.items() for words in inputs]


@pytest.mark.parametrize("command", _attacks())
def test_no_gate_passes_hidden_data(command: str) -> None:
    done = run(*command.split(), cwd=HERE / "attacks")
    assert done.returncode in (1, 2), done
    assert b"Traceback" not in done.stderr


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Folders of the chosen cases by family."""
    top, families = tmp_path_factory.mktemp("environment"), defaultdict(list)
    for path in ARCHIVES:
        with lzma.open(path) as stream, tarfile.open(fileobj=stream) as archive:
            members = archive.getmembers()
            names = sorted(member.name.removesuffix("/cmd") for member in members if member.name.endswith("/cmd"))
            ours = defaultdict(list)
            for name in names:
                ours[name.partition("/")[0]].append(name)
            chosen = {name for family in ours.values() for name in family[::EVERY]}
            wanted = [member for member in members if "/".join(member.name.split("/")[:2]) in chosen]
            archive.extractall(top, wanted, filter="tar")
        for name in sorted(chosen):
            families[name.partition("/")[0]].append(top / name)
    return families


@pytest.mark.parametrize("family", FAMILIES)
def test_a_build_in_any_environment(family: str, cases: dict[str, list[Path]]) -> None:
    silent = KNOWN.get(family, "").split()
    wrong = [f"{case.name}: {fault}" for case in cases[family] if case.name not in silent and (fault := _fault(case))]
    assert not wrong, "\n".join(wrong)


def _fault(case: Path) -> str:
    """Fault of the answer to a case; empty if there is none."""
    command = (case / "cmd").read_text(encoding="utf-8").strip()
    if command.startswith("$S ") and not _SHELL.search(command):
        done = run(*command.split()[1:], cwd=case)
    else:
        done = _in_a_shell(command, case)
    if b"Traceback (most" in done.stdout + done.stderr:
        return f"traceback of {command}"
    right = (case / "expect").read_text(encoding="utf-8").split()
    return (
        "" if str(done.returncode) in right else f"exit status {done.returncode}, not {' or '.join(right)}: {command}"
    )


def _in_a_shell(command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """A case's command, in which ``$S`` is ours; some end it before its time, so that none may be forked."""
    environment = {**os.environ, "S": str(COMMAND), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    return subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, check=False)


@pytest.mark.parametrize("case", BUILDS["cases"][:: sized(8, 1)], ids=lambda case: case["log"])
def test_a_log_of_a_real_project(case: dict[str, Any]) -> None:
    checked = _asked("check", "--config", "none", *case.get("args", ()), case["log"])
    assert checked.returncode in case["expect"], checked.stdout + checked.stderr
    if case["kernels"] is not None:
        kernels = json.loads(_asked("scan", "-f", "json", case["log"]).stdout)["kernels"]
        entries = [kernel for kernel in kernels if kernel["role"] == "entry"]
        assert Counter(kernel["arch"] for kernel in entries) == case["kernels"]
        assert Counter(kernel["arch"] for kernel in entries if _spills(kernel)) == (case["spilling"] or {})
        functions = [kernel for kernel in kernels if kernel["role"] != "entry" and _spills(kernel)]
        assert len(functions) == case["functions_spilling"]
    if 2 not in case["expect"]:
        assert _differ(case["log"], case["log"]).returncode == 0


@pytest.mark.parametrize("pair", BUILDS["pairs"][:: sized(8, 1)], ids=lambda pair: pair[1])
def test_two_logs_of_one_build_do_not_differ(pair: list[str]) -> None:
    done = _differ(*pair, "-f", "json")
    assert done.returncode == 0, done.stderr
    changes = json.loads(done.stdout)
    assert changes["changes"] == changes["unsettled"] == []


@pytest.mark.parametrize("pair", BUILDS["red_pairs"], ids=lambda pair: pair[1])
def test_two_logs_with_a_regression_differ(pair: list[str]) -> None:
    assert _differ(*pair).returncode == 1


def _asked(*words: str) -> subprocess.CompletedProcess[bytes]:
    return run(*words, cwd=HERE / "builds")


def _differ(*words: str) -> subprocess.CompletedProcess[bytes]:
    return _asked("diff", "--config", "none", "--fail-on", "policy", *words)


def _spills(kernel: dict[str, Any]) -> bool:
    usage = kernel["usage"]
    return bool((usage["spill_store_bytes"] or 0) + (usage["spill_load_bytes"] or 0))
