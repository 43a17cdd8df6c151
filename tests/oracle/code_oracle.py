"""``diff --with code`` on kernels compiled twice, of which it is known whether anything that they refer to changed.

    python -m tests.oracle.code_oracle [--arch sm_90]… [WORD]…

Each plant of ``code_plants.yaml`` changes one instruction, datum, attribute or name; WORD chooses plants by name. nvcc
must be on PATH.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from spillscan import scan
from spillscan.judging.compare.code_changes import code_changes
from spillscan.judging.compare.pairing import comparison
from spillscan.model.findings import CodeChange
from spillscan.reading.binary.fetch import texts_of

PLANTS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("code_plants.yaml").read_text())
ARCHS = ("sm_80", "sm_90", "sm_100", "sm_120")


def cubin(plant: dict[str, Any], side: str, arch: str, rdc: bool, folder: Path) -> Path:
    """One build of a plant."""
    source = folder / f"{plant['name']}.cu"
    source.write_text(plant["source"])
    out = folder / f"{plant['name']}-{arch}-{rdc}-{side}.cubin"
    options = [f"-arch={arch}", "-cubin", *(["-rdc=true"] if rdc else []), *shlex.split(plant.get(side, ""))]
    subprocess.run(["nvcc", "-w", *options, source, "-o", out], check=True)
    return out


def compared(old: Path, new: Path) -> CodeChange:
    """The verdict on the kernel ``k`` of two cubins."""
    found = comparison(scan(str(old)), scan(str(new)), all_pairs=True)
    pairs = (*found.changes, *found.recoded, *found.unsettled, *found.equal)
    texts = texts_of(side for each in pairs for side in (each.before, each.after) if side is not None)
    return next(each for each in code_changes(pairs, texts) if each.change.kernel.key.symbol == "k")


def main() -> int:
    """Compare; 1 if any verdict is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--arch", action="append", help=f"default: {', '.join(ARCHS)}")
    arguments = parser.parse_args()
    archs = arguments.arch or ARCHS
    wrong = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for plant in PLANTS:
            if arguments.words and not any(word in plant["name"] for word in arguments.words):
                continue
            for arch in [each for each in archs if each in plant.get("archs", archs)]:
                for rdc in plant.get("rdc", (False, True)):
                    found = compared(*(cubin(plant, side, arch, rdc, Path(folder)) for side in ("old", "new")))
                    total += 1
                    if found.verdict != plant["verdict"]:
                        wrong += 1
                        kind = "-rdc" if rdc else "whole program"
                        print(
                            f"{plant['name']} {arch} {kind}: {found.verdict}, not {plant['verdict']}: {found.reasons}"
                        )
    print(f"{total - wrong} of {total} right")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
