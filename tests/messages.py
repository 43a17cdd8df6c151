"""Every message that users can see, in one list: `python -m tests.messages [PACKAGE …]`.

They are found in the source (errors, issues, gaps, findings, help, lines on standard error, what `init` and
`advise` print) and in `docs/` (rules and gaps). A part that only a run knows is shown as `{…}`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, product
from typing import NamedTuple

from spillscan.judging.rule_docs import explanations
from spillscan.model.gaps import KINDS
from tests.conftest import ROOT

PLACEHOLDER = "{…}"
_PRINTING = {"complain": "line", "say": "line"} | dict.fromkeys(("flag", "words", "number", "add_called"), "help")
_ADVISING = ("advice/", "commands/init", "judging/rules")
Known = dict[str, list[ast.expr]]


class Message(NamedTuple):
    """One message, or one wording of it; ``hint``: what to do, where that is apart."""

    place: str
    kind: str
    text: str
    hint: str = ""


def texts(node: ast.AST | None, known: Known, depth: int = 3) -> list[str]:
    """Texts that an expression can have, one per wording; empty if none is written there."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.Name) and depth:
        return [text for value in known.get(node.id, ()) for text in texts(value, known, depth - 1)]
    if isinstance(node, ast.IfExp):
        return texts(node.body, known, depth) + texts(node.orelse, known, depth)
    if isinstance(node, ast.JoinedStr):
        parts = (each.value if isinstance(each, ast.Constant) else PLACEHOLDER for each in node.values)
        return ["".join(map(str, parts))]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        before, after = (texts(each, known, depth) or [PLACEHOLDER] for each in (node.left, node.right))
        return [one + other for one, other in product(before, after) if {one, other} != {PLACEHOLDER}]
    return texts(node.left, known, depth) if isinstance(node, ast.BinOp) else []


def _of_call(call: ast.Call, place: str, known: Known) -> Iterator[Message]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    keywords = {each.arg: each.value for each in call.keywords}
    if (name.endswith("Error") or name == "error") and call.args:
        hints = [hint for node in call.args[1:2] for hint in texts(node, known) or [PLACEHOLDER]]
        yield from (Message(place, name, *both) for both in product(texts(call.args[0], known), hints or [""]))
    if any(isinstance(each, ast.Constant) and each.value in KINDS for each in (*call.args, keywords.get("code"))):
        found = [keywords["message"]] if "message" in keywords else call.args[1:2]
        yield from (Message(place, "issue", text) for node in found for text in texts(node, known))
    elif "help" in keywords or name in _PRINTING:
        nodes = chain(*(getattr(each, "elts", [each]) for each in (*call.args, keywords.get("help"))))
        kind = _PRINTING.get(name, "help")
        yield from (Message(place, kind, text) for node in nodes for text in texts(node, known) if " " in text)


def _assigned(nodes: Iterable[ast.AST]) -> Known:
    known: Known = {}
    for node in (each for each in nodes if isinstance(each, ast.Assign)):
        both = getattr(node.targets[0], "elts", node.targets), getattr(node.value, "elts", [])
        for name, value in zip(*both, strict=False) if both[1] else [(node.targets[0], node.value)]:
            known.setdefault(getattr(name, "id", ""), []).append(value)
    return known


def _of_module(path: str, tree: ast.Module) -> Iterator[Message]:
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))
    within = {function: _assigned(tree.body) | _assigned(ast.walk(function)) for function in functions}
    inner = {node: function for function in within for node in ast.walk(function)}
    for node in ast.walk(tree):
        place, known = f"{path}:{getattr(node, 'lineno', 0)}", within[inner[node]] if node in inner else {}
        if isinstance(node, ast.Call):
            yield from _of_call(node, place, known)
        elif isinstance(node, ast.Yield | ast.Return) and path.startswith(_ADVISING):
            found = [text for part in getattr(node.value, "elts", [node.value]) for text in texts(part, known)]
            yield from (Message(place, "line", text) for text in found if " " in text and "\n" not in text)


@cache
def messages() -> list[Message]:
    """All of them, package by package."""
    found = list[Message]()
    for path in sorted((ROOT / "spillscan").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += dict.fromkeys(_of_module(path.relative_to(ROOT / "spillscan").as_posix(), tree))
    for document, (name, about) in ((each, pair) for each in ("rules", "gaps") for pair in explanations(each).items()):
        found.append(Message(f"docs/explain/{document}.md: {name}", "title", about.title, about.fix))
    return found


if __name__ == "__main__":
    for each in (each for each in messages() if each.place.startswith(tuple(sys.argv[1:]) or "")):
        print(f"{each.place}  {each.kind}  {each.text}{each.hint and '  ⇒  '}{each.hint}")
