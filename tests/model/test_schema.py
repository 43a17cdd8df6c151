"""``build.schema.json`` is made from the classes that are written: ``python -m tests.model.test_schema`` writes it."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from spillscan.judging.compare import code_changes
from spillscan.model import build, code, findings, gaps, local, snapshot, usage
from spillscan.model.metrics import METRICS
from spillscan.reports.formats import json as report
from tests.conftest import ROOT

SCHEMA = ROOT / "spillscan" / "model" / "schema" / "build.schema.json"
KINDS = ("kernels", "changes", "rows")
"""Members that only reports of this kind have."""


def schema() -> dict[str, Any]:
    """JSON schema: members that are always written are required, and all are described; members of other kinds of
    reports are left out.
    """
    (_,), definitions = msgspec.json.schema_components([report.ReportJson], ref_template="#/$defs/{name}")
    about = {("Usage", each.name): each.about for each in METRICS} | _docstrings(
        snapshot, report, code_changes, build, code, local, findings, gaps, usage
    )
    found = {_name(name): _described(name, each, about) for name, each in definitions.items()}
    whole = found.pop("report")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "spillscan report"}
    text = json.dumps(head | whole | {"$defs": found})
    document: dict[str, Any] = json.loads(re.sub(r"#/\$defs/(\w+)", lambda ref: f"#/$defs/{_name(ref[1])}", text))
    document["required"] = ["schema_version", "tool_version", "issues", "stats"]
    document["anyOf"] = [{"required": [kind]} for kind in KINDS]
    return document


def _name(name: str) -> str:
    """``kernel`` of ``KernelJson``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Json")).lower()


def _described(name: str, definition: dict[str, Any], about: dict[tuple[str, str], str]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    always = []
    for field, each in definition["properties"].items():
        always += [field] if field in definition["required"] or "default" in each else []  # neither: may be unset
        each.pop("default", None)
        text = _about(name, "kind" if field == "class" else field, about)
        properties[field] = each | {"description": text}
    head = {"type": "object", "description": inspect.cleandoc(definition["description"]), "additionalProperties": False}
    return head | {"required": always, "properties": properties}


def _about(name: str, field: str, about: dict[tuple[str, str], str]) -> str:
    """Description of a field by its class; else by the model's field of the same name."""
    parts = ("LocalJson", "CodeSizeJson", "SassStats", "LocalTraffic")
    own = parts if name == "SassJson" else (name.removesuffix("Json"),)
    text = next(about[each, field] for each in (name, *own, "KernelKey", "Kernel") if (each, field) in about)
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``None``", "null")
    return text.replace("``True``", "true").replace("``False``", "false").replace("``", "")


def _docstrings(*modules: ModuleType) -> dict[tuple[str, str], str]:
    """Docstring of each field and property of each class, on one line."""
    found = {}
    for module in modules:
        for each in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(each, ast.ClassDef):
                for field, text in zip(each.body, each.body[1:], strict=False):
                    if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                        assert isinstance(field.target, ast.Name)
                        assert isinstance(text.value, ast.Constant)
                        found[each.name, field.target.id] = " ".join(str(text.value.value).split())
                found |= {
                    (each.name, member.name): " ".join((ast.get_docstring(member) or "").split())
                    for member in each.body
                    if isinstance(member, ast.FunctionDef)
                }
    return found


def test_the_schema_is_that_of_the_classes() -> None:
    assert _ordered(json.loads(SCHEMA.read_text(encoding="utf-8"))) == _ordered(schema())


def _ordered(found: Any) -> Any:
    """With alternatives in one order: releases of msgspec differ in theirs."""
    if isinstance(found, dict):
        parts = {key: _ordered(value) for key, value in found.items()}
        return (
            parts | {"anyOf": sorted(parts["anyOf"], key=json.dumps)} if isinstance(parts.get("anyOf"), list) else parts
        )
    return [_ordered(value) for value in found] if isinstance(found, list) else found


def write(path: Path = SCHEMA) -> None:
    """Write the present schema."""
    path.write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
