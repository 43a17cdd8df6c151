"""`baseline write` and `prune`, and `check` and `diff` with a baseline, as users and CI run them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conforming import conforms
from tests.conftest import FIXTURES, read_text, run
from tests.judging.baseline.support import ENVIRONMENT, commit, git

SCENARIOS = yaml.safe_load((Path(__file__).parent / "commands.yaml").read_text(encoding="utf-8"))
LOGS = {
    "base.log": "demo/base.log",
    "head.log": "demo/head.log",
    "nothing.log": "hostile/nothing.log",
    "broken.log": "ptxas/broken-13.0.log",
    "code.log": "sass/ptxas-13.5.log",
    "code.sass": "sass/nvdisasm-c-sm_90a-13.5.sass",
    "effects-base.log": "effects/base.log",
    "effects-head.log": "effects/head.log",
    **{f"{name}.log": f"nvcc/checkout-{name}-13.0.log" for name in ("one", "two", "rdc")},
}


@pytest.fixture
def folder(repository: Path) -> Path:
    """A repository with logs; `worse.log` and `better.log` differ from `head.log` in one value."""
    for name, fixture in LOGS.items():
        (repository / name).write_text(read_text(FIXTURES / fixture))
    head = (repository / "head.log").read_text()
    for name, loads in (("worse.log", 220), ("better.log", 200)):
        (repository / name).write_text(head.replace("216 bytes spill loads", f"{loads} bytes spill loads", 1))
    (repository / "renamed.log").write_text((repository / "base.log").read_text().replace("6rotate", "4turn"))
    unlinked = read_text(FIXTURES / "ptxas" / "calls-c-13.0.log")
    (repository / "unlinked.log").write_text(f"nvcc -dc -Xptxas -v calls.cu -o calls.o\n{unlinked}")
    return repository


@pytest.mark.parametrize("why", SCENARIOS)
def test_commands(why: str, folder: Path) -> None:
    for command, status, output in SCENARIOS[why]:
        word, _, rest = command.partition(" ")
        if word == "put":
            name, _, text = rest.partition(" ")
            (folder / name).write_text(text + "\n")
        elif word == "link":
            (folder / rest.split()[0]).symlink_to(rest.split()[1])
        elif word == "commit":
            commit(folder)
        elif word == "git":
            assert git(folder, *rest.split()).returncode == 0
        else:
            done = run(*command.split(), cwd=folder, env=ENVIRONMENT)
            printed = (done.stdout + done.stderr).decode()
            wanted = (status, not output.startswith("!"))
            assert (done.returncode, output.removeprefix("!") in printed) == wanted, f"{command}\n{printed}"
            assert status != 2 or done.stderr.count(b"\n") == 1 or done.stdout, printed


def test_written_again_it_is_the_same_bytes_whatever_the_order(folder: Path) -> None:
    blocks = re.split(r"(?=^ptxas info    : Compiling entry)", (folder / "head.log").read_text(), flags=re.MULTILINE)
    (folder / "mixed.log").write_text("".join(blocks[:1] + blocks[:0:-1]))
    for path, arguments in (
        ("whole", ["head.log"]),
        ("again", ["head.log"]),
        ("mixed", ["mixed.log"]),
        ("parts", ["head.log", "--arch", "sm_80"]),
        ("parts", ["head.log", "--arch", "sm_90a"]),
    ):
        assert run("baseline", "write", *arguments, "-o", path, cwd=folder, env=ENVIRONMENT).returncode == 0
    assert len({(folder / path).read_bytes() for path in ("whole", "again", "mixed", "parts")}) == 1


def test_json_has_states(folder: Path) -> None:
    def document(*words: str) -> Any:
        return json.loads(run("check", *words, "-f", "json", cwd=folder, env=ENVIRONMENT).stdout)

    run("baseline", "write", "head.log", "-o", "b", cwd=folder, env=ENVIRONMENT)
    value = document("base.log", "--baseline", "b", "--set", "max_register_growth=none", "--accept", "fewer-kernels")
    conforms(value)
    counts = {"new": 0, "worse": 0, "known": 0, "better": 0, "fixed": 2, "stale": 2, "suppressed": 0}
    assert value["baseline"]["counts"] == counts
    assert {(each["short_name"], each["arch"], each["rule"]) for each in value["baseline"]["fixed"]} == {
        ("model::gemm<8>", "sm_80", "spill"),
        ("model::gemm<8>", "sm_90a", "spill"),
    }
    assert {(each["short_name"], each["rule"]) for each in value["baseline"]["stale"]} == {("model::gather", None)}
    for words, state in ((("--baseline", "b"), "known"), ((), None)):
        assert [each["baseline_state"] for each in document("head.log", *words)["findings"]] == [state] * 2
