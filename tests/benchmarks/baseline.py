"""Reading and holding a baseline of 10,000 entries, as ratios to ``json.load`` of the same data and to PyYAML.

Each is CPU time of the best of some rounds, in turns, in one process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict

import yaml

from spillscan.judging.baseline.file import entries_by_yaml, parse, text_of
from spillscan.judging.baseline.judging import apply
from spillscan.judging.baseline.recording import EMPTY, record
from spillscan.judging.policy import Policy
from spillscan.judging.rules import check
from spillscan.model import Build, Kernel, KernelKey, Usage
from tests.judging.baseline.support import TODAY

ENTRIES = 10_000
ROUNDS = 5
ARGUMENTS = "N7cutlass4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10collective13CollectiveMmaIEEEE"


def main() -> None:
    """Print a line a candidate."""
    build = a_build()
    policy = Policy()
    judgement = check(build, policy)
    baseline = record(build, judgement.findings, (), EMPTY, policy, TODAY).baseline
    text = text_of(baseline)
    body = text[text.index("\nkernels:") + 1 :]
    plain = [[*key, asdict(entry)] for key, entry in baseline.entries.items()]
    document = json.dumps(plain)
    spilling = sum(bool(entry.recorded) for entry in baseline.entries.values())
    print(f"baseline of {len(baseline.entries):,} entries, {spilling:,} with figures, {len(text) / 1e6:.1f} MB")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    seconds = best(
        {
            "json.loads": lambda: json.loads(document),
            "read": lambda: parse(text, "b.yaml"),
            "read, reformatted by hand": lambda: entries_by_yaml(body, "b.yaml"),
            f"yaml.load ({loader.__name__})": lambda: yaml.load(body, Loader=loader),
            "judge": lambda: apply(judgement.findings, build, baseline, policy, TODAY),
            "record": lambda: record(build, judgement.findings, (), baseline, policy, TODAY),
            "write": lambda: text_of(baseline),
        }
    )
    for name, each in seconds.items():
        print(f"  {name:<28} {each * 1000:8.1f} ms  {each / seconds['json.loads']:6.1f} times json.loads")


def a_build() -> Build:
    """Kernels with names of 130 characters in five archs, one in seven of them spilling."""
    kernels = []
    for number in range(ENTRIES):
        spilled = 8 * (number % 64) if number % 7 == 0 else 0
        usage = Usage(registers=64, spill_store_bytes=spilled, spill_load_bytes=spilled)
        key = KernelKey(symbol=f"_Z6kernelI{ARGUMENTS}Li{number // 5}EEvPf", arch=f"sm_{80 + number % 5}")
        kernels.append(Kernel(key=key, role="entry", usage=usage))
    return Build(kernels=tuple(kernels))


def best(candidates: dict[str, Callable[[], object]]) -> dict[str, float]:
    """CPU seconds of the fastest round of each."""
    fastest = dict.fromkeys(candidates, float("inf"))
    for _ in range(ROUNDS):
        for name, run in candidates.items():
            start = time.process_time()
            run()
            fastest[name] = min(fastest[name], time.process_time() - start)
    return fastest


if __name__ == "__main__":
    main()
