"""The diagram in ``docs/internals/design.md`` equals the imports; ``python -m tests.test_design`` redraws it.

A package is a folder or a module of the product. Every import counts: late ones, and those for types only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name

from tests.conftest import ROOT

DOCUMENT = ROOT / "docs" / "internals" / "design.md"
PRODUCT = ROOT / "spillscan"
PICTURE = re.compile(r"(?<=<!-- picture -->\n).*?(?=<!-- end of picture -->)", re.S)
BACK_UP = re.compile(r"^- `(\w+)` → `(\w+)`: \S.*", re.M)
"""An arrow that runs back up, with its reason."""
MOST_BACK_UP = 5
FRONT = ("__init__", "__main__")
"""The package's own front door: it names what stands anywhere."""
PACKAGES = sorted(path.stem for path in PRODUCT.iterdir() if path.is_dir() or path.suffix == ".py")
PACKAGES = [name for name in PACKAGES if name != "__pycache__"]
MOST_PACKAGES, MOST_LAYERS = 13, 10
MOST_LINES, MOST_FIELDS = 480, 20


def package_of(module: str) -> str:
    """``machine`` for ``spillscan.reading.machine.flow``."""
    return module.split(".")[1]


@cache
def modules() -> Mapping[str, frozenset[str]]:
    """Every module of the product by its name, with those of the product that it names."""
    found = {}
    for path in sorted(PRODUCT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[module] = frozenset(imported(module, ast.parse(path.read_text(encoding="utf-8"))))
    return found


def imported(module: str, tree: ast.Module) -> Iterator[str]:
    """The modules of the product that a module names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), module) if node.level else node.module or ""
            yield from (
                f"{origin}.{alias.name}" if _is_module(f"{origin}.{alias.name}") else origin for alias in node.names
            )


def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def arrows() -> dict[str, set[str]]:
    """The packages that each package imports from."""
    found: dict[str, set[str]] = {}
    for module, named in modules().items():
        package = package_of(module)
        if package in FRONT:
            continue
        mine = found.setdefault(package, set())
        for name in named:
            if name.startswith("spillscan.") and package_of(name) not in (package, "__version__", *FRONT):
                mine.add(package_of(name))
    return found


def downwards() -> dict[str, set[str]]:
    """All arrows but those that the document excuses."""
    excused = set(BACK_UP.findall(DOCUMENT.read_text(encoding="utf-8")))
    return {
        package: {other for other in others if (package, other) not in excused} for package, others in arrows().items()
    }


def layers(below: Mapping[str, set[str]]) -> list[list[str]]:
    """Packages from the top layer down: each is above all that it imports from."""
    height: dict[str, int] = {}
    for package in TopologicalSorter(below).static_order():
        height[package] = 1 + max((height[other] for other in below.get(package, ())), default=0)
    return [
        sorted(package for package in height if height[package] == layer)
        for layer in range(max(height.values()), 0, -1)
    ]


def picture() -> str:
    """A line a layer."""
    lines = [f"{layer:2}  {'  '.join(packages)}" for layer, packages in enumerate(layers(downwards()), 1)]
    return "```\n" + "\n".join(lines) + "\n```\n"


def test_no_circle() -> None:
    try:
        layers(downwards())
    except CycleError as error:
        raise AssertionError(f"packages import from each other in a circle: {' → '.join(error.args[1])}") from error


def test_no_circle_of_modules() -> None:
    known = {*modules(), *(module.removesuffix(".__init__") for module in modules())}
    graph: dict[str, set[str]] = {}
    for module, named in modules().items():
        if package_of(module) in FRONT:
            continue
        name = module.removesuffix(".__init__")
        graph[name] = (named & known) - {name}
    list(TopologicalSorter(graph).static_order())


def test_few_arrows_run_back_up_each_with_its_reason() -> None:
    excused = BACK_UP.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert len(excused) <= MOST_BACK_UP
    have = arrows()
    assert all(other in have[package] for package, other in excused), "an excuse for an arrow that is not there"


def test_few_rooms() -> None:
    assert len([name for name in PACKAGES if name not in FRONT]) <= MOST_PACKAGES
    assert len(layers(downwards())) <= MOST_LAYERS


def test_every_module_and_class_holds_one_idea() -> None:
    paths = sorted(PRODUCT.rglob("*.py"))
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    long = {name: count for name, text in sources.items() if (count := text.count("\n")) > MOST_LINES}
    assert not long
    classes = [
        (name, node)
        for name, text in sources.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    ]
    assert len(classes) > 100
    wide = {f"{name}: {node.name}": fields for name, node in classes if (fields := len(own_fields(node))) > MOST_FIELDS}
    assert not wide


def own_fields(kind: ast.ClassDef) -> set[str]:
    """Attributes that a class declares, or that its methods set on ``self``."""
    stored = {
        node.attr
        for node in ast.walk(kind)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value)
    }
    declared = [node.target for node in kind.body if isinstance(node, ast.AnnAssign)]
    return stored | {target.id for target in declared if isinstance(target, ast.Name)}


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def test_a_class_has_the_fields_that_it_declares_and_stores() -> None:
    (kind,) = ast.parse("class A:\n a: int\n b: int = 0\n def f(self):\n  self.c, self.a = 1, 2\n  self.d.e = 3").body
    assert isinstance(kind, ast.ClassDef)
    assert own_fields(kind) == {"a", "b", "c"}


def test_the_diagram_equals_the_imports() -> None:
    drawn = PICTURE.search(DOCUMENT.read_text(encoding="utf-8"))
    assert drawn
    assert drawn[0] == picture()


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(PICTURE.sub(lambda _: picture(), text), encoding="utf-8")
