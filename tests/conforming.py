"""Validation of documents against JSON Schemas; each schema's validator is built once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.conftest import ROOT

BUILD = ROOT / "spillscan" / "model" / "schema" / "build.schema.json"


@cache
def validator(path: Path, part: str = "") -> Any:
    """Validator for the schema in a file, or for one of its ``$defs``. Raises if it is not a schema."""
    schema = json.loads(path.read_text(encoding="utf-8"))
    if part:
        schema = {"$schema": schema["$schema"], **schema["$defs"][part], "$defs": schema["$defs"]}
    jsonschema_rs.meta.validate(schema)
    return jsonschema_rs.validator_for(schema)


def conforms(document: Any, path: Path = BUILD, part: str = "") -> None:
    """Raises :class:`jsonschema_rs.ValidationError` where ``document`` does not."""
    validator(path, part).validate(document)
