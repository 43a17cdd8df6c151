"""``diff --with code`` on kernels compiled twice, of which it is known whether anything that they refer to changed.

Each plant of ``code_plants.yaml`` changes one instruction, datum, attribute or name.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from spillscan import scan
from spillscan.judging.compare.code_changes import code_changes
from spillscan.judging.compare.pairing import comparison
from spillscan.reading.binary.fetch import texts_of

pytestmark = [pytest.mark.oracle, pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")]
PLANTS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("code_plants.yaml").read_text())
ARCHS = ("sm_80", "sm_90", "sm_100", "sm_120")


def cubin(plant: dict[str, Any], side: str, options: list[str], folder: Path) -> Path:
    """Build of a plant."""
    (folder / "k.cu").write_text(plant["source"])
    words = ["nvcc", "-w", "-cubin", *options, *shlex.split(plant.get(side, ""))]
    subprocess.run([*words, "k.cu", "-o", f"{side}.cubin"], check=True, cwd=folder)
    return folder / f"{side}.cubin"


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant["name"])
def test_the_verdict_on_a_plant(plant: dict[str, Any], tmp_path: Path) -> None:
    for arch in (each for each in ARCHS if each in plant.get("archs", ARCHS)):
        for relocatable in plant.get("rdc", (False, True)):
            options = [f"-arch={arch}", *(["-rdc=true"] if relocatable else [])]
            old, new = (scan(cubin(plant, side, options, tmp_path)) for side in ("old", "new"))
            found = comparison(old, new, all_pairs=True)
            pairs = (*found.changes, *found.recoded, *found.unsettled, *found.equal)
            texts = texts_of(side for each in pairs for side in (each.before, each.after) if side is not None)
            (change,) = (each for each in code_changes(pairs, texts) if each.change.kernel.key.symbol == "k")
            assert change.verdict == plant["verdict"], (options, change.reasons)
