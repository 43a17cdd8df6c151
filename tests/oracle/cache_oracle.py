"""Pairs of Triton caches, whose candidates are known, against `diff`. Not part of `make test`.

    python -m tests.oracle.cache_oracle [--cache DIR] [--made FOLDER] [--seed SEED] [--pairs N]

Two releases of Triton compile the candidates of two kernels (`fixtures/sources/caches/triton_candidates.py`); no GPU is
needed. A cache is some of them, in folders whose names say nothing. Held against each other are: the same code in other
folders, other tuning lists, other releases, and some candidates whose code another setting changed; with what the
compiler wrote beside the code, and without. No pair may join two candidates, or call equal code a change, and every
candidate that came, went or changed must be found. Exit status 1 where one is not. `--made` keeps what was compiled.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from random import Random

from spillscan import scan
from spillscan.judging.compare.pairing import comparison
from spillscan.model import Kernel
from spillscan.naming.identity.pairs import pair

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "fixtures"))

RELEASES = ("3.3.1", "3.9.0")
KERNELS = ("mm", "scale")


def main() -> int:
    """Compile and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--made", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=20)
    arguments = parser.parse_args()
    random, counts = Random(arguments.seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        made = arguments.made or Path(folder) / "made"
        for release in RELEASES:
            if not (made / release).exists():
                _compile(release, made / release, arguments.cache)
        for number in range(arguments.pairs):
            place = Path(folder) / str(number)
            _compare(place / "with", made, random, number % 4, True, counts)
            if number % 4 < 2:  # without, code of another compiler says not which candidate it is
                _compare(place / "without", made, random, number % 4, False, counts)
    print(", ".join(f"{count:,} {what}" for what, count in sorted(counts.items())))
    return 1 if any("wrong" in what for what in counts) else 0


def _compile(release: str, aim: Path, cache: Path | None) -> None:
    from maker.toolchains import default_cache, download

    tools = aim.parent / f"triton-{release}"
    wheel = download(f"triton=={release}", (cache or default_cache()) / "wheels")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tools)
    for tool in tools.glob("triton/backends/nvidia/bin/*"):
        tool.chmod(0o755)
    script = ROOT / "fixtures" / "sources" / "caches" / "triton_candidates.py"
    subprocess.run([sys.executable, script, aim], env={"PYTHONPATH": str(tools), "PATH": "/usr/bin:/bin"}, check=True)


def _compare(place: Path, made: Path, random: Random, kind: int, beside: bool, counts: Counter[str]) -> None:
    """One pair: 0 the same, 1 another list, 2 another release, 3 changed code in the same list."""
    plain = made / RELEASES[0] / "plain"
    every = sorted(str(path.parent.relative_to(plain)) for path in plain.rglob("*.cubin"))
    release = random.choice(RELEASES)
    kept = [each for name in KERNELS for each in random.sample([e for e in every if e.startswith(name)], 2)]
    before = dict.fromkeys({*kept, *random.sample(every, random.randint(2, 10))}, (release, "plain"))
    after = dict(before)
    if kind == 1:
        after = dict.fromkeys({*kept, *random.sample(every, random.randint(2, 10))}, (release, "plain"))
    elif kind == 2:
        after = {name: (RELEASES[1 - RELEASES.index(release)], "plain") for name in before}
    elif kind == 3:
        others = sorted(name for name in before if (made / release / "changed" / name).exists())
        after |= dict.fromkeys(random.sample(others, min(2, len(others))), (release, "changed"))
    sides = [_laid_out(place / str(n), made, held, random, beside) for n, held in enumerate((before, after))]
    names = {folder: name for side in sides for folder, name in side.items()}
    base, head = (scan(str(place / str(n))) for n in (0, 1))

    def candidate(kernel: Kernel | None) -> str | None:
        return None if kernel is None else names[Path(kernel.origins[0].input).parent.name]

    what = ("the same", "another list", "another release", "changed code")[kind]
    for found in pair(base.kernels, head.kernels):
        one, other = candidate(found.before), candidate(found.after)
        right = one == other if one and other else (one or other) not in {*before} & {*after}
        counts[f"{what}: {'right' if right else 'wrong'}"] += 1
        if not right:
            print(what, "with" if beside else "without", one, other)
    kernels = [{candidate(kernel): kernel for kernel in build.kernels} for build in (base, head)]
    wanted = {*before} ^ {*after}
    wanted |= {name for name in {*before} & {*after} if _said(kernels[0][name]) != _said(kernels[1][name])}
    shown = {candidate(change.kernel) for change in comparison(base, head).changes}
    counts["changes found" if shown == wanted else "changes wrong"] += len(wanted | shown)
    if shown != wanted:
        print(what, "changes", sorted(map(str, shown ^ wanted)))


def _said(kernel: Kernel) -> object:
    assert kernel.sass is not None
    stats = kernel.sass
    return kernel.usage, stats.local.groups, stats.shared_spills, stats.instructions, stats.code_bytes


def _laid_out(
    place: Path, made: Path, held: dict[str, tuple[str, str]], random: Random, beside: bool
) -> dict[str, str]:
    """Candidates by the names of their folders."""
    found = {}
    for name, (release, state) in held.items():
        folder = f"{random.getrandbits(64):016X}"
        found[folder] = name
        shutil.copytree(made / release / state / name, place / folder)
        for path in () if beside else (place / folder).glob("*"):
            if path.suffix != ".cubin":
                path.unlink()
    return found


if __name__ == "__main__":
    sys.exit(main())
