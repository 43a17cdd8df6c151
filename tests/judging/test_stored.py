"""Output of gates for fixtures, compared with the stored one: ``python -m tests.judging.test_stored`` rewrites it.
Other tests check that it is right; this one shows all that a change affects.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections import Counter
from typing import Any

import pytest

from spillscan import cli
from tests.conftest import FIXTURES, stored

STORED = FIXTURES / "EXPECTED-judged.json"
_KINDS = ("archs", "here", "here-rdc", "lambda", "refactored", "renamed", "spilled", "there")
PAIRS = [
    ("demo/base.log", "demo/head.log"),
    *((f"identity/{kind}-13.0.log", f"identity/{kind}-13.5.log") for kind in _KINDS),
    ("identity/here-13.0.log", "identity/there-13.0.log"),
    ("identity/spilled-13.0.log", "identity/renamed-13.5.log"),
    ("ptxas/spill-12.9.log", "ptxas/spill-13.5.log"),
    ("binary/sass-sm_80-12.3.cubin.zst", "binary/sass-sm_80-13.5.cubin.zst"),
    ("binary/sass-sm_90a-12.3.cubin.zst", "binary/sass-sm_90a-13.5.cubin.zst"),
    ("binary/callees-12.4.cubin.zst", "binary/callees-13.5.cubin.zst"),
    ("binary/roles-kept-sm_90a-13.5.cubin.zst", "binary/roles-other-sm_90a-13.5.cubin.zst"),
    ("sass/cuobjdump-sm_120-12.8.sass.zst", "sass/cuobjdump-sm_120-13.5.sass.zst"),
]
LIMITS = (
    "--set max_spill_bytes=64 --set max_registers=64 --set max_stack_bytes=100 --set max_shared_bytes=2000"
    " --set max_code_bytes=4000 --set min_blocks_per_sm=4 --launch *=256,0"
)
GROWTH = "--set max_spill_growth_bytes=4 --set max_register_growth=2 --set max_code_growth_percent=5"
_BUILDS = sorted({build for pair in PAIRS for build in pair})
_CALLS = [
    *(
        f"diff {more} {base} {head}"
        for base, head in PAIRS
        for more in ("", "--with code", f"--strict {GROWTH} --launch *=128")
    ),
    *(f"diff --by arch {build}" for build in ("demo/head.log", "identity/archs-13.0.log")),
    *(f"check {more} {build}" for build in _BUILDS for more in ("", LIMITS)),
    *(f"check --baseline baseline.json {more} {head}" for base, head in PAIRS for more in ("", GROWTH)),
    "check effects/head.log effects/head.sass.zst",
    f"check {LIMITS} --strict effects/head.log effects/head.sass.zst",
    *(f"check failures/{path.name}" for path in sorted((FIXTURES / "failures").iterdir())),
]
CALLS = [" ".join(call.split()) for call in _CALLS]
"""Arguments; a baseline is of the pair's older build."""
_HEADS = {head: base for base, head in PAIRS}


def summary(call: str) -> dict[str, Any]:
    """Exit status, how many findings of each rule and gaps of each kind."""
    with contextlib.chdir(FIXTURES), tempfile.TemporaryDirectory() as folder:
        command, *words = call.replace("baseline.json", f"{folder}/baseline.json").split()
        if words[0] == "--baseline":
            _run("baseline", "write", "--config", "none", _HEADS[words[-1]], "-o", words[1])
        status, out = _run(command, "--config", "none", *words, "-f", "json")
    document = json.loads(out or "{}")
    rules = Counter(f"{each['severity']} {each['rule']}" for each in document.get("findings", ()))
    gaps = Counter(each["code"] for each in document.get("issues", ()))
    return {"status": status, "findings": dict(sorted(rules.items())), "issues": dict(sorted(gaps.items()))}


def _run(*words: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main([*words])
    return status, out.getvalue()


@pytest.mark.parametrize("call", CALLS)
def test_output_equals_the_stored_one(call: str) -> None:
    assert summary(call) == stored(STORED)[call]


def write() -> None:
    """Rewrite the file; read its diff."""
    lines = [f" {json.dumps(call)}: {json.dumps(summary(call))}" for call in CALLS]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write()
