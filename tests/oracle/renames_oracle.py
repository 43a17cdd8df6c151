"""Renames planted in real builds: which pairs are found, and how many of those are wrong.

    python -m tests.oracle.renames_oracle BUILD [BUILD …] [--seed N]… [--kind KIND]…

BUILD is a binary, package or log of a public project. Of its kernels three in ten get other names, one in twenty are
taken away and one in twenty are new; figures stay, or half of them change; with code, half of the digests change, too.
No pair may be wrong. How many renames are found is printed: a function that lost a kernel at once is not.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence

from msgspec.structs import replace

from spillscan import scan
from spillscan.model import Kernel
from spillscan.model.symbols import Function, demangle
from spillscan.naming.pairs import paired
from tests.naming.identity import generator

SHARE, GONE = 0.3, 0.05
"""Kernels that are renamed, and those that are taken away, or new."""
KINDS = ("function", "prefix", "namespace", "both", "argument", "moved", "split", "siblings", "swapped")
FORMS = ("figures kept", "figures changed", "code kept", "code changed")
"""Of names that are demangled (``argument``) no code is known."""
_TOKEN = re.compile(r"S[0-9A-Z]*_|T\d*_|L[a-z]n?\d+E|(\d+)|[^STL\d]+|.", re.DOTALL)
_VALUE = re.compile(r"n?\d+E")
_WORD = re.compile(r"[A-Za-z_]\w*")
_MADE = re.compile(r"_[VS]_|^_|anon|^std$|^cub$|^thrust$|^cuda$")
"""Names of the toolchain, which nobody renames."""

Truth = dict[int, Kernel | None]
"""By the id of a kernel of the older build: what became of it."""


def reworded(symbol: str, words: dict[str, str]) -> str:
    """A mangled name, or any, with other words in it."""
    if not symbol.startswith("_Z"):
        return _WORD.sub(lambda match: words.get(match[0], match[0]), symbol)
    found, at, before = ["_Z"], 2, ""
    while at < len(symbol):
        token = _TOKEN.match(symbol, at)
        assert token is not None
        at = token.end()
        text = token[0]
        if token[1] and len(token[1]) < 5:
            word = symbol[at : at + int(token[1])]
            at += int(token[1])
            new = words.get(word, word)
            text = f"{len(new)}{new}"
            if before == "L" and (value := _VALUE.match(symbol, at)):  # of an enumerator
                text += value[0]
                at = value.end()
        found.append(text)
        before = token[0]
    return "".join(found)


def longer(text: str) -> str:
    """A demangled name with one template argument more."""
    name = Function(text)
    return text if name.angle is None else f"{text[: name.closing[name.angle]]}, true{text[name.closing[name.angle] :]}"


def chosen(kernels: Sequence[Kernel], words: Callable[[Function], Iterable[str]], rng: random.Random) -> list[str]:
    """Words of three in ten kernels, as near as it gets."""
    held: dict[str, set[int]] = defaultdict(set)
    for each in kernels:
        for word in words(Function(demangle(each.key.symbol))):
            if not _MADE.search(word) and re.fullmatch(r"[A-Za-z_]\w{2,}", word):
                held[word].add(id(each))
    found: list[str] = []
    taken: set[int] = set()
    for word in rng.sample(sorted(held), len(held)):
        if len(taken | held[word]) <= 1.2 * SHARE * len(kernels):
            found.append(word)
            taken |= held[word]
        if len(taken) >= SHARE * len(kernels):
            break
    return found


def renaming(kernels: Sequence[Kernel], kind: str, rng: random.Random) -> Callable[[Kernel], Kernel]:
    """New name of a kernel, or of its object."""
    known = {word for each in kernels for word in _WORD.findall(demangle(each.key.symbol))}
    bases = chosen(kernels, lambda name: (name.base,), rng)
    scopes = chosen(kernels, lambda name: _WORD.findall("".join(name.scopes[-1:]))[:1], rng)
    units = sorted({each.key.unit for each in kernels})
    moved = set(rng.sample(units, max(1, len(units) * 3 // 10)))
    fresh = {}
    for word in (*bases, *scopes):
        fresh[word] = next(
            made for made in iter(lambda: "_".join(rng.sample(generator.WORDS, 2)), "") if made not in known
        )
        known.add(fresh[word])
    words = {
        "function": {word: fresh[word] for word in bases},
        "prefix": {word: f"v2_{word}" for word in bases},
        "namespace": {word: fresh[word] for word in scopes},
        "both": fresh,
    }.get(kind, {})
    if kind in ("siblings", "swapped"):
        words = exchanged(kernels, kind == "swapped", rng)

    def after(kernel: Kernel) -> Kernel:
        key = kernel.key
        if kind == "argument" and Function(key.symbol).base in bases:
            key = replace(key, symbol=longer(key.symbol))
        elif words:
            key = replace(key, symbol=reworded(key.symbol, words))
        elif kind == "moved" and key.unit in moved:
            key = replace(key, unit=f"other/place/{key.unit}")
        elif kind == "split" and key.unit in moved:
            key = replace(key, unit=f"{key.unit}.part{rng.randint(0, 1)}")
        return replace(kernel, key=key)

    return after


def exchanged(kernels: Sequence[Kernel], swapped: bool, rng: random.Random) -> dict[str, str]:
    """Functions of equal parameters: ``swapped``, two by two, where they have equal instances in the same objects, else
    one that gets instances of another's."""
    forms: dict[str, set[Hashable]] = defaultdict(set)
    shapes: dict[Hashable, set[str]] = defaultdict(set)
    for each in kernels:
        name = Function(demangle(each.key.symbol))
        forms[name.base].add((tuple(name.scopes), name.arguments, name.parameters, each.key.arch, each.key.unit))
        shapes[tuple(name.scopes), len(name.arguments), name.parameters].add(name.base)
    if swapped:
        shapes.clear()
        for base, several in forms.items():
            shapes[frozenset(several)].add(base)
    words: dict[str, str] = {}
    for alike in sorted(map(sorted, shapes.values())):
        rng.shuffle(alike)
        for one, two in zip(alike[::2], alike[1::2], strict=False):
            words |= {one: two, two: one} if swapped else {one: two} if two not in words else {}
    return words


def planted(
    kernels: Sequence[Kernel], kind: str, changing: bool, rng: random.Random, gone: float = GONE
) -> tuple[list[Kernel], list[Kernel], Truth]:
    """Both builds, and which kernel is which."""
    if kind == "argument":
        kernels = [
            replace(each, key=replace(each.key, symbol=demangle(each.key.symbol)), sass=None) for each in kernels
        ]
    symbols = {each.key.symbol for each in kernels}
    renamed = renaming(kernels, kind, rng)
    base: list[Kernel] = []
    head: list[Kernel] = []
    truth: Truth = {}
    for each in kernels:
        after, fate = renamed(each), rng.random()
        sibling = kind == "siblings" and after.key.symbol != each.key.symbol
        if sibling and after.key.symbol in symbols:
            after, sibling = each, False
        if sibling or (changing and rng.random() < 0.5):
            code = after.sass and replace(
                after.sass, digest=f"{rng.getrandbits(64):x}", instructions=after.sass.instructions + 1
            )
            after = replace(after, usage=generator.later(rng, each.usage), sass=code)
        if sibling or fate >= gone:
            base.append(each)
            truth[id(each)] = after if fate < 1 - gone and not sibling else None
        if sibling or fate < 1 - gone:
            head.append(after)
    rng.shuffle(head)
    return base, head, truth


def reported(base: list[Kernel], head: list[Kernel], truth: Truth) -> Counter[str]:
    """Number of pairs per kind: of renamed kernels, and of wrong pairs among the others."""
    found = paired(base, head)
    after = {id(match.before): (match.after, True) for match in found.renamed}
    after |= {id(before): (later, True) for before, later in found.same}
    counts = Counter[str]()
    for each in base:
        right = truth[id(each)]
        renamed = right is not None and right.key.symbol != each.key.symbol
        counts["renamed"] += renamed
        given, sure = after.get(id(each), (None, True))
        if given is None:
            counts["unpaired"] += renamed
            continue
        correct = right is not None and _facts(given) == _facts(right)
        if right is not None and not correct and _metrics(given) == _metrics(each) == _metrics(right):
            counts["untold"] += 1  # nothing differs, so nothing is reported
            continue
        counts[f"{'sure' if sure else 'open'} {'right' if correct else 'wrong'}"] += renamed or not correct
    return counts


def _facts(kernel: Kernel) -> Hashable:
    """Equal for copies that nothing tells apart."""
    return kernel.key.symbol, kernel.key.arch, kernel.usage


def _metrics(kernel: Kernel) -> Hashable:
    return kernel.usage, kernel.sass and kernel.sass.digest


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--kind", action="append", choices=KINDS)
    arguments = parser.parse_args()
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for build in arguments.builds:
        kernels = [each for each in scan([build]).kernels if each.role == "entry" and each.key.symbol]
        for kind in arguments.kind or KINDS:
            for form in FORMS[: 2 if kind == "argument" or not kernels[0].sass else None]:
                for seed in arguments.seed or (1,):
                    some = kernels if "code" in form else [replace(each, sass=None) for each in kernels]
                    counts = reported(*planted(some, kind, "changed" in form, random.Random(f"{seed} {kind}")))
                    totals[f"{kind}, {form}" if kind == "swapped" else kind] += counts
                    said = ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items()) if number)
                    name = f"{build.rpartition('/')[2]:.30} {len(kernels):,}"
                    print(f"{name} {kind}, {form}, seed {seed}: {said}", flush=True)
    failed = False
    for kind, counts in totals.items():
        share = counts["sure right"] / max(1, counts["renamed"])
        said = ", ".join(
            f"{name} {counts[name]:,}" for name in ("sure wrong", "open right", "open wrong", "untold", "unpaired")
        )
        print(f"{kind}: {counts['renamed']:,} renamed, {share:.2%} right; {said}")
        failed |= bool(counts["sure wrong"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
