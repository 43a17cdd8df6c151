"""Plants small faults in the product, and sees whether the nearest tests notice: `make mutants`.

    python -m tests.mutants [--seed N] [--count N] [--package PACKAGE ...] [--workers N] [--map FILE]

A mutant is one module with one token changed: a comparison, an operator, `and`, `not`, a number, `min`. Which mutants
are tried follows from the seed alone. A first run of the tests under coverage says which of them reach which line; each
mutant meets those that reach its own, in a copy of the tree, until one fails; then all of the nearest folder. What
survives is printed with its line: kill it by a test, or list it in `tests/equivalent_mutants.yaml` with the reason why
nothing can tell it from the original. Exits with 1 where less than the bar is killed, or a survivor is not listed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("reading", "naming", "occupancy", "judging", "history")
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.yaml"
LEAST_KILLED = 0.92
MOST_TESTS = 40
"""Of the tests that reach a line, those that reach the fewest lines go first."""
SECONDS = 120.0
"""A mutant with which the tests that reach its line take longer hangs: it is killed."""
SECONDS_FOLDER = 900.0
"""The same of a whole folder of tests, which may take minutes by itself."""

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
    ast.Mod: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LARGEST_NUMBER = 1024


class Mutant(NamedTuple):
    """One change of one module."""

    path: str
    """From the top of the checkout."""
    line: int
    number: int
    """Which of the module's possible changes it is."""
    change: str
    """What it does, in words: ``< to <=``."""
    text: str
    """The line as it is."""


def possible(path: Path) -> list[Mutant]:
    """All changes of a module, in the order of its syntax tree."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    name = path.relative_to(ROOT).as_posix()
    return [
        Mutant(name, node.lineno, number, change, lines[node.lineno - 1].strip())
        for number, (node, change) in enumerate(_sites(ast.parse(source)))
    ]


def mutated(path: Path, number: int) -> str:
    """The module's text with one of its :func:`possible` changes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for at, _ in enumerate(_sites(tree, number)):
        if at == number:
            break
    return ast.unparse(ast.fix_missing_locations(tree))


def _sites(tree: ast.Module, chosen: int = -1) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """(node, what is changed) of each place; the ``chosen`` one is changed before it is yielded."""
    count = 0
    for node in _running(tree):
        for change in _changes(node):
            words = change(count == chosen)
            yield node, words  # type: ignore[misc]
            count += 1


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run, not those that declare: types, decorators, and what a class statement says of its class."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "type_comment", "decorator_list", "bases"):
                continue
            if isinstance(node, ast.ClassDef) and field == "keywords":
                continue
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            children = value if isinstance(value, list) else [value]
            waiting += [child for child in children if isinstance(child, ast.AST)]


def _changes(node: ast.AST) -> Iterator[object]:
    def one(words: str, apply: object) -> object:
        def change(really: bool) -> str:
            if really:
                apply()  # type: ignore[operator]
            return words

        return change

    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARED:
            other = _COMPARED[type(operator)]
            yield one(f"{type(operator).__name__} to {other.__name__}", lambda: node.ops.__setitem__(0, other()))
        case ast.BinOp(op=operator) if type(operator) in _OPERATORS and not _is_text(node):
            instead = _OPERATORS[type(operator)]
            yield one(f"{type(operator).__name__} to {instead.__name__}", lambda: setattr(node, "op", instead()))
        case ast.AugAssign(op=operator) if type(operator) in _OPERATORS and not _is_text(node.value):
            instead = _OPERATORS[type(operator)]
            yield one(f"{type(operator).__name__}= to {instead.__name__}=", lambda: setattr(node, "op", instead()))
        case ast.BoolOp(op=ast.And()):
            yield one("and to or", lambda: setattr(node, "op", ast.Or()))
        case ast.BoolOp(op=ast.Or()):
            yield one("or to and", lambda: setattr(node, "op", ast.And()))
        case ast.UnaryOp(op=ast.Not()):
            yield one("not left out", lambda: setattr(node, "op", ast.UAdd()) or _bare(node))
        case ast.Constant(value=bool() as value):
            yield one(f"{value} to {not value}", lambda: setattr(node, "value", not value))
        case ast.Constant(value=int() as value) if 0 <= value <= _LARGEST_NUMBER:
            yield one(f"{value} to {value + 1}", lambda: setattr(node, "value", value + 1))
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            yield one(f"{name} to {_NAMES[name]}", lambda: setattr(node.func, "id", _NAMES[name]))
        case ast.Continue():
            yield one("continue to break", lambda: setattr(node, "__class__", ast.Break))
        case ast.Break():
            yield one("break to continue", lambda: setattr(node, "__class__", ast.Continue))


def _bare(node: ast.UnaryOp) -> None:
    """``not x`` as ``bool(x)``."""
    operand = node.operand
    node.__class__ = ast.Call  # type: ignore[assignment]
    node.func, node.args, node.keywords = ast.Name("bool", ast.Load()), [operand], []  # type: ignore[attr-defined]


def _is_text(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for each in ast.walk(node)
    )


def chosen(seed: int, count: int, packages: Sequence[str]) -> list[Mutant]:
    """The mutants of a seed."""
    modules = sorted(path for package in packages for path in (ROOT / "spillscan" / package).rglob("*.py"))
    every = [mutant for path in modules for mutant in possible(path)]
    return Random(seed).sample(every, min(count, len(every)))


# ---- which tests reach which line -----------------------------------------------------------------------------------


def reached(packages: Sequence[str], keep: Path | None, workers: int) -> dict[str, dict[int, list[str]]]:
    """The tests that reach each line of each module, the most particular first; from ``keep``, if it is there."""
    if keep is not None and keep.exists():
        known = json.loads(keep.read_text())
        return {path: {int(line): tests for line, tests in lines.items()} for path, lines in known.items()}
    found: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    weight: dict[str, int] = defaultdict(int)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(workers) as pool:
        for file, lines in chain.from_iterable(pool.map(partial(_covered, Path(folder)), packages)):
            for line, tests in lines.items():
                found[file][line] += [test for test in tests if test]
                for test in tests:
                    weight[test] += 1
    for lines_of in found.values():
        for tests in lines_of.values():
            tests.sort(key=lambda test: (weight[test], test))
    if keep is not None:
        keep.write_text(json.dumps(found))
    return found


def _covered(folder: Path, package: str) -> list[tuple[str, dict[int, list[str]]]]:
    """(module, tests of each line) of all that the tests of a package reach."""
    from coverage import CoverageData

    data, config = folder / package, folder / f"{package}.rc"
    config.write_text("[run]\ndynamic_context = test_function\n")
    options = ["--data-file", str(data), "--include", f"{ROOT}/spillscan/*", "--rcfile", str(config)]
    words = [sys.executable, "-m", "coverage", "run", *options, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run(
        [*words, str(ROOT / "tests" / package)], cwd=ROOT, check=False, stdout=subprocess.DEVNULL, env=environment
    )
    gathered = CoverageData(str(data))
    gathered.read()
    return [
        (Path(file).relative_to(ROOT).as_posix(), gathered.contexts_by_lineno(file))
        for file in gathered.measured_files()
    ]


def _as_argument(test: str) -> str:
    """``tests/naming/test_names.py::test_x`` of ``tests.naming.test_names.test_x``."""
    module, _, function = test.rpartition(".")
    while not (ROOT / (module.replace(".", "/") + ".py")).exists() and "." in module:
        module, _, outer = module.rpartition(".")
        function = f"{outer}::{function}"
    return f"{module.replace('.', '/')}.py::{function}"


# ---- trying ----------------------------------------------------------------------------------------------------------


class Copies:
    """Copies of the tree, one for each mutant that is tried at once."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            place = folder / str(number)
            ignored = shutil.ignore_patterns(".git", ".venv", ".hypothesis", ".mypy_cache", "site")
            shutil.copytree(ROOT, place, ignore=ignored, copy_function=os.link)
            self._free.put(place)

    def survives(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> bool:
        """Whether no test fails, nor takes more than so many ``seconds``."""
        place = self._free.get()
        file = place / mutant.path
        try:
            file.unlink()
            file.write_text(mutated(ROOT / mutant.path, mutant.number), encoding="utf-8")
            return _pass(place, tests, seconds)
        finally:
            file.unlink(missing_ok=True)
            os.link(ROOT / mutant.path, file)
            self._free.put(place)


def _pass(place: Path, tests: Sequence[str], seconds: float) -> bool:
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
    # Byte code comes with the copy; a mutant's would be as old as the next one's of its module, and as long.
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(words, cwd=place, env=environment, capture_output=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode in (0, 5)  # 5: none of these tests is there


def nearest(path: str) -> Iterator[str]:
    """What of the tests mirrors a module, the nearest last: the files of the folders above its own, then the file
    ``test_x.py`` of ``x.py``, where there is one, then the folder of the same name."""
    place, mirrored = Path("tests", *Path(path).parts[1:]).with_suffix(""), None
    while not (ROOT / place).is_dir():
        if (file := place.parent / f"test_{place.name}.py") and (ROOT / file).exists():
            mirrored = file
        place = place.parent
    above = [each for each in place.parents if len(each.parts) > 1]
    yield from (file.relative_to(ROOT).as_posix() for each in above for file in sorted((ROOT / each).glob("test_*.py")))
    if mirrored is not None:
        yield mirrored.as_posix()
    yield place.as_posix()


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
    """Try the mutants of a seed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--map", type=Path, help="where the tests of each line are kept for the next run")
    arguments = parser.parse_args()
    packages = arguments.package or PACKAGES
    mutants = chosen(arguments.seed, arguments.count, packages)
    tests = reached(packages, arguments.map, arguments.workers)
    listed = yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or []
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=ROOT.parent) as folder:
        copies = Copies(Path(folder), arguments.workers)

        def survives(mutant: Mutant) -> bool:
            mine = tests.get(mutant.path, {}).get(mutant.line, [])[:MOST_TESTS]
            if mine and not copies.survives(mutant, [*dict.fromkeys(map(_as_argument, mine))], SECONDS):
                return False
            return all(copies.survives(mutant, [place], SECONDS_FOLDER) for place in nearest(mutant.path))

        with ThreadPoolExecutor(arguments.workers) as pool:
            for number, (mutant, lives) in enumerate(zip(mutants, pool.map(survives, mutants), strict=True), 1):
                if lives:
                    survivors.append(mutant)
                    known = "equivalent" if is_equivalent(mutant, listed) else "SURVIVES"
                    print(f"{known}: {mutant.path}:{mutant.line}: {mutant.change}: {mutant.text}", flush=True)
                if number % 20 == 0:
                    print(f"{number} of {len(mutants)} tried, {len(survivors)} survived", file=sys.stderr, flush=True)
    unexplained = [mutant for mutant in survivors if not is_equivalent(mutant, listed)]
    killed = 1 - len(survivors) / max(1, len(mutants))
    print(f"{len(mutants)} mutants of seed {arguments.seed}: {killed:.1%} killed, {len(unexplained)} not explained")
    return 1 if unexplained or killed < LEAST_KILLED else 0


if __name__ == "__main__":
    raise SystemExit(main())
