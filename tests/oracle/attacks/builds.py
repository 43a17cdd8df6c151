"""Two builds, one of them damaged: a regression never passes, and an unchanged build is never one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from tests.oracle.attacks import Attack, crashed, gate, logs

NAME = "two builds"

_STACK = re.compile(
    rb"(Function properties for (?P<name>\S+)\n)(?P<before> +)\d+ bytes stack frame, "
    rb"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads\n"
)


def attack(chance: Random) -> Attack:
    """Compare two builds, one of them damaged."""
    name = chance.choice(tuple(_CASES))
    return _CASES[name](chance, name)


def _damaged(which: str) -> Callable[[Random, str], Attack]:
    """The newer build spills more; ``which`` of the two is damaged."""

    def case(chance: Random, name: str) -> Attack:
        sample = chance.choice(_spoiled_samples())
        damage = chance.choice(tuple(logs.DAMAGES_OF_ONE))
        worse = _worse(chance, sample.text)
        whole = sample if which == "base" else logs.sample_of(f"{sample.name}, worse", worse)
        data = logs.DAMAGES_OF_ONE[damage](chance, [whole])
        base, head = (data, worse) if which == "base" else (sample.text, data)
        label, failures = f"{name}: {damage}", []
        status, said = gate({"base.log": base, "head.log": head}, "diff", "--fail-on", "policy")
        if crashed(said):
            failures.append(f"crash: {said}")
        if logs.traceless(data.decode("utf-8", "replace"), whole.known):
            label += ", no trace"
        elif status == 0:
            failures.append("passed")
        shown = _shown(base, head)
        return Attack(label, sample.name, shown, failures)

    return case


def _spoiled_samples() -> Sequence[logs.Sample]:
    return [sample for sample in logs.samples() if _STACK.search(sample.text)]


def _worse(chance: Random, text: bytes) -> bytes:
    """``text`` with more spills in one of its kernels or device functions."""
    match = chance.choice(list(_STACK.finditer(text)))
    more = b"%s%s%d bytes stack frame, %d bytes spill stores, %d bytes spill loads\n" % (
        match[1],
        match["before"],
        4096,
        int(match["stores"]) + 64,
        int(match["loads"]) + 64,
    )
    return text[: match.start()] + more + text[match.end() :]


def _same(chance: Random, name: str) -> Attack:
    """Output of the same compilers, interleaved differently."""
    chosen = [chance.choice(logs.samples()) for _ in range(chance.randint(2, 4))]
    texts = [sample.text for sample in chosen]
    size = chance.choice(logs.GRANULARITIES)
    base = logs.interleaved(chance, texts, size) if chance.random() < 0.5 else b"".join(texts)
    head = logs.interleaved(chance, texts, size)
    status, said = gate({"base.log": base, "head.log": head}, "diff", "--fail-on", "policy")
    failures = [f"crash: {said}"] if crashed(said) else []
    if status == 1 and size == "message":  # torn messages lose kernels, and make others new
        failures.append("false regression")
    shown = _shown(base, head)
    return Attack(f"{name} by {size}", " + ".join(sample.name for sample in chosen), shown, failures)


def _shown(base: bytes, head: bytes) -> str:
    return f"==== base\n{base.decode('utf-8', 'replace')}\n==== head\n{head.decode('utf-8', 'replace')}"


_CASES: dict[str, Callable[[Random, str], Attack]] = {
    "the newer is damaged": _damaged("head"),
    "the older is damaged": _damaged("base"),
    "interleaved": _same,
}
