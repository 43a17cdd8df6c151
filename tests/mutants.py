"""Plants small faults in what decides and reports, and sees whether the nearest tests notice: ``make mutants``.

    python -m tests.mutants [--seed N] [--fixed N] [--fresh N] [--family FAMILY ...] [--workers N] [--map FILE] [--list]

A mutant is one module with one thing changed: a comparison, an operator, ``and``, ``not``, a condition, a number, a
unit, ``min``, a call whose result nobody takes. Two thirds are fixed: those whose digests are the least of their
family, so that a line nobody touches keeps its mutants. A third is drawn with a new seed on each run, which is printed.

A first run of the nearest tests under coverage says which of them reach which line. Each mutant meets the most
particular of those that reach its own, in a copy of the tree, for 15 seconds of processor time at most. What survives
is printed with its line: kill it by a test, or list it in ``tests/equivalent_mutants.yaml`` with the reason why it may
live. Exits with 1 where a bar is missed or a survivor of the fixed ones is not listed.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from random import Random, SystemRandom
from typing import NamedTuple

import yaml

from tests import reaching

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.yaml"
FAMILIES = {
    "rules": ("judging/rules", "judging/places.py", "judging/definitions.py"),
    "verdict": ("judging/verdict.py", "commands/_footer.py", "commands/_issues.py"),
    "join": ("reading/join",),
    "pairing": ("judging/compare",),
    "policy": ("judging/policy", "commands/_policy.py"),
    "baseline": ("judging/baseline", "commands/_baseline.py", "commands/baseline.py"),
    "exit statuses": ("cli.py", "commands/check.py", "commands/diff.py", "commands/scan.py", "commands/run.py"),
    "reports": ("reports", "output/nouns.py"),
    "run": ("builds",),
}
"""Modules and folders of the product, whose faults a user would take for facts."""
TESTS = (
    "tests/judging",
    "tests/reading/join",
    "tests/reports",
    "tests/builds",
    "tests/commands",
    "tests/output",
    "tests/cases",
    "tests/guards",
    "tests/advice/sweep",
    "tests/reading/binary/test_size_accounting.py",
    "tests/reading/binary/test_commands.py",
)
"""Tests that may be a mutant's nearest."""
FIXED, FRESH = 270, 135
LEAST_FIXED, LEAST_FRESH = 0.92, 0.85
SECONDS = 15
"""Processor time of a mutant's tests: one that takes longer hangs, and is killed."""
SHARE = 0.9
"""Share of it that the chosen tests take as measured, under coverage, which makes them slower."""

_COMPARED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_UNITS = {"B": "KiB", "KiB": "B", "MiB": "KiB", "KB": "B", "MB": "KB", "ms": "s", "s": "ms", "%": "‰"}
_UNIT = re.compile(r"(?<![\w<%'-])(?:B|[KM]i?B|ms|s|%)(?![\w(>-])")
_LARGEST_NUMBER = 1024

Change = tuple[str, Callable[[], object]]


class Mutant(NamedTuple):
    """One change of one module."""

    path: str
    """From the top of the checkout."""
    line: int
    number: int
    """Index among the module's possible changes."""
    change: str
    """Change in words: ``Lt to LtE``."""
    text: str
    """The line as it is."""

    @property
    def digest(self) -> str:
        """Sort key of mutants, independent of the lines before theirs."""
        return sha256(f"{self.path}|{self.change}|{self.text}".encode()).hexdigest()


def possible(path: Path) -> list[Mutant]:
    """All changes of a module, in the order of its syntax tree."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    name = path.relative_to(ROOT).as_posix()
    return [
        Mutant(name, line, number, change, lines[line - 1].strip())
        for number, (line, (change, _)) in enumerate(_sites(ast.parse(source)))
    ]


def mutated(path: Path, number: int) -> str:
    """The module's text with one of its :func:`possible` changes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for at, (_, (_, apply)) in enumerate(_sites(tree)):
        if at == number:
            apply()
            break
    return ast.unparse(ast.fix_missing_locations(tree))


def _sites(tree: ast.Module) -> Iterator[tuple[int, Change]]:
    """(line, change) of each place."""
    line = 1
    for node in _running(tree):
        line = getattr(node, "lineno", line)
        yield from ((line, change) for change in _changes(node))


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run, not those that declare: without types, decorators, class attributes, and ``strict`` of zip."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TYPE_CHECKING":
            continue
        yield node
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "type_comment", "decorator_list", "bases"):
                continue
            if isinstance(node, ast.ClassDef) and field == "keywords":
                continue
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "TypeVar":
                continue
            if isinstance(node, ast.keyword) and node.arg == "strict":
                continue
            children = value if isinstance(value, list) else [value]
            waiting += [child for child in children if isinstance(child, ast.AST) and not _is_docstring(child)]


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARED:
            other = _COMPARED[type(operator)]
            yield f"{type(operator).__name__} to {other.__name__}", lambda: node.ops.__setitem__(0, other())
        case ast.BinOp(op=operator) if type(operator) in _OPERATORS and not _is_text(node):
            instead = _OPERATORS[type(operator)]
            yield f"{type(operator).__name__} to {instead.__name__}", lambda: setattr(node, "op", instead())
        case ast.AugAssign(op=operator) if type(operator) in _OPERATORS and not _is_text(node.value):
            instead = _OPERATORS[type(operator)]
            yield f"{type(operator).__name__}= to {instead.__name__}=", lambda: setattr(node, "op", instead())
        case ast.BoolOp(op=ast.And()):
            yield "and to or", lambda: setattr(node, "op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield "or to and", lambda: setattr(node, "op", ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield "not left out", lambda: _become(node, ast.Call(ast.Name("bool", ast.Load()), [node.operand], []))
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call()):
            yield "condition turned round", lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
        case ast.Expr(value=ast.Call()):
            yield "call left out", lambda: _become(node, ast.Pass())
        case ast.Constant(value=bool() as value):
            yield f"{value} to {not value}", lambda: setattr(node, "value", not value)
        case ast.Constant(value=int() as value) if 0 <= value <= _LARGEST_NUMBER:
            yield f"{value} to {value + 1}", lambda: setattr(node, "value", value + 1)
        case ast.Constant(value=str() as value) if unit := _UNIT.search(value):
            other_unit = value[: unit.start()] + _UNITS[unit[0]] + value[unit.end() :]
            yield f"{unit[0]} to {_UNITS[unit[0]]}", lambda: setattr(node, "value", other_unit)
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            yield f"{name} to {_NAMES[name]}", lambda: setattr(node.func, "id", _NAMES[name])
        case ast.Continue():
            yield "continue to break", lambda: _become(node, ast.Break())
        case ast.Break():
            yield "break to continue", lambda: _become(node, ast.Continue())


def _become(node: ast.AST, other: ast.AST) -> None:
    """Make a node another one, wherever it hangs."""
    node.__class__ = type(other)  # type: ignore[assignment]
    for name in other._fields:
        setattr(node, name, getattr(other, name))


def _is_text(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for each in ast.walk(node)
    )


@cache
def planted(family: str) -> list[Mutant]:
    """All mutants of a family, least digest first."""
    modules: list[Path] = []
    for name in FAMILIES[family]:
        path = ROOT / "spillscan" / name
        modules += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return sorted((each for path in modules if path.exists() for each in possible(path)), key=lambda each: each.digest)


def chosen(seed: int, fixed: int, fresh: int, families: Sequence[str]) -> tuple[list[Mutant], list[Mutant]]:
    """Fixed mutants, and fresh ones of a seed; each family has its share of both."""
    share, rest = fixed // len(families), fresh // len(families)
    draw = Random(seed)
    both: tuple[list[Mutant], list[Mutant]] = [], []
    for family in families:
        mutants = planted(family)
        both[0].extend(mutants[:share])
        both[1].extend(draw.sample(mutants[share:], min(rest, len(mutants[share:]))))
    return both


class Copies:
    """Copies of the tree, one for each mutant that is tried at once."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            place = folder / str(number)
            ignored = shutil.ignore_patterns(".git", ".venv", ".hypothesis", ".mypy_cache", "build", "site")
            shutil.copytree(ROOT, place, ignore=ignored, copy_function=os.link)
            self._free.put(place)

    def survives(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        """Whether no test fails, nor hangs."""
        place = self._free.get()
        file = place / mutant.path
        try:
            file.unlink()
            file.write_text(mutated(ROOT / mutant.path, mutant.number), encoding="utf-8")
            return reaching.passes(place, tests, SECONDS)
        finally:
            file.unlink(missing_ok=True)
            os.link(ROOT / mutant.path, file)
            self._free.put(place)


def is_equivalent(mutant: Mutant, listed: Sequence[Mapping[str, str]]) -> bool:
    """Whether a mutant is listed, with its reason: by its path, text and change, or, where several are equivalent for
    one reason, by a ``pattern`` that all of ``change: text`` matches, in a path if the entry gives one."""

    said = f"{mutant.change}: {mutant.text}"

    def is_it(each: Mapping[str, str]) -> bool:
        key = {name: each[name] for name in ("path", "text", "change") if name in each}
        pattern = each.get("pattern")
        return (
            key.items() <= {"path": mutant.path, "text": mutant.text, "change": mutant.change}.items()
            and ({"text", "change"} <= key.keys() if pattern is None else bool(re.fullmatch(pattern, said)))
            and bool(each.get("reason"))
        )

    return any(map(is_it, listed))


def main() -> int:
    """Try the fixed mutants and fresh ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6), help="of the fresh ones")
    parser.add_argument("--fixed", type=int, default=FIXED)
    parser.add_argument("--fresh", type=int, default=FRESH)
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--map", type=Path, help="where the tests of each line are kept for the next run")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    arguments = parser.parse_args()
    families = arguments.family or [*FAMILIES]
    fixed, fresh = chosen(arguments.seed, arguments.fixed, arguments.fresh, families)
    print(f"{len(fixed)} fixed mutants, {len(fresh)} of seed {arguments.seed}", flush=True)
    if arguments.list:
        for mutant in fixed + fresh:
            print(f"{mutant.path}:{mutant.line}: {mutant.change}: {mutant.text}")
        return 0
    modules = {mutant.path for family in families for mutant in planted(family)}
    tests = reaching.tests_by_line(TESTS, modules, arguments.map, arguments.workers)
    listed = yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or []
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=ROOT / ".venv") as folder:
        copies = Copies(Path(folder), arguments.workers)

        def lives(mutant: Mutant) -> bool:
            mine = tests.nearest(mutant.path, mutant.line, SHARE * SECONDS)
            survives = not mine or copies.survives(mutant, mine)
            if survives:
                known = "listed" if is_equivalent(mutant, listed) else "SURVIVES"
                reached = f"{len(mine)} tests" if mine else "no test reaches it"
                print(f"{known}: {mutant.path}:{mutant.line}: {mutant.change}: {mutant.text} ({reached})", flush=True)
            return survives

        with ThreadPoolExecutor(arguments.workers) as pool:
            living = [
                mutant for mutant, alive in zip(fixed + fresh, pool.map(lives, fixed + fresh), strict=True) if alive
            ]
    return _verdict(fixed, fresh, living, listed)


def _verdict(
    fixed: Sequence[Mutant], fresh: Sequence[Mutant], living: Sequence[Mutant], listed: Sequence[Mapping[str, str]]
) -> int:
    """Print the table of families and say whether the bars are met."""
    family_of = {mutant.path: family for family in FAMILIES for mutant in planted(family)}
    tried = Counter(family_of[each.path] for each in [*fixed, *fresh])
    survived = Counter(family_of[each.path] for each in living)
    for family, count in tried.items():
        print(f"{family:14} {count:4} tried, {survived[family]:3} survived")
    unexplained = [each for each in fixed if each in living and not is_equivalent(each, listed)]
    met = not unexplained
    for name, mutants, bar in (("fixed", fixed, LEAST_FIXED), ("fresh", fresh, LEAST_FRESH)):
        killed = 1 - sum(each in living for each in mutants) / max(1, len(mutants))
        met &= killed >= bar
        print(f"{name}: {killed:.1%} of {len(mutants)} killed, at least {bar:.0%}")
    print(f"{len(unexplained)} fixed survivors without a reason")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
