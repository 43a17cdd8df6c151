"""The JSON Schema of a policy file, derived from the keys. Beyond it, regular expressions and devices are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spillscan.model import Rule
from spillscan.policy.document import EFFECTS, SELECTORS
from spillscan.policy.keys import KEYS, LARGEST, LAUNCH_KEYS, LEVELS, VERSION, Key

_WORD = {"type": "string", "minLength": 1, "pattern": "^[^\n]+$"}
_SELECTOR_HELP = {
    "match": "globs, or re: expressions, that must fit a whole name of the kernel: symbol, full name, or short name",
    "arch": "globs of archs: sm_90a, sm_9*",
    "unit": "globs of translation units, as the build log names them",
}


def schema(rules: Sequence[Rule]) -> dict[str, Any]:
    """The schema of ``spillscan.yaml`` and of ``[tool.spillscan]``."""
    keys = {name: _value(key) for name, key in KEYS.items()}
    severity = _mapping(
        {rule.id: {"enum": list(LEVELS), "description": rule.title} for rule in rules},
        "severity by rule; off: the rule finds nothing",
    )
    entry = {
        **{name: _words(text) for name, text in _SELECTOR_HELP.items()},
        **{name: value for name, value in keys.items() if KEYS[name].per_kernel},
        "severity": {"$ref": "#/definitions/severity"},
        "launch": _launch(),
        "reason": {**_WORD, "description": "why, for those who come after"},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "spillscan policy",
        "description": "spillscan.yaml, or the table tool.spillscan of pyproject.toml",
        **_mapping(
            {
                "version": {"const": VERSION, "description": "version of this file's format"},
                **keys,
                "severity": {"$ref": "#/definitions/severity"},
                "kernels": {
                    "type": "array",
                    "description": "what holds for some kernels; of those that name one, the last wins, key by key",
                    "items": {
                        **_mapping(entry),
                        "allOf": [_one_of(SELECTORS), _one_of(EFFECTS)],
                    },
                },
            }
        ),
        "definitions": {"severity": severity},
    }


def _value(key: Key) -> dict[str, Any]:
    about: dict[str, Any] = {"description": key.help}
    if key.default not in (None, ()):
        about["default"] = key.default
    number = {"type": "integer", "minimum": 0, "maximum": LARGEST}
    if key.kind == "limit":
        return {"anyOf": [number, {"const": "none"}], **about}
    if key.kind == "count":
        return {**number, **about}
    if key.kind == "flag":
        return {"type": "boolean", **about}
    if key.kind == "choice":
        return {"enum": list(key.choices), **about}
    return {**_WORD, **about} if key.kind == "path" else {**_words(), **about}


def _words(text: str = "") -> dict[str, Any]:
    about = {"description": text} if text else {}
    return {"anyOf": [_WORD, {"type": "array", "items": _WORD, "minItems": 1}], **about}


def _launch() -> dict[str, Any]:
    figures = {
        name: {"type": "integer", "minimum": least, "maximum": most} for name, (least, most) in LAUNCH_KEYS.items()
    }
    return {**_mapping(figures, "how these kernels are launched"), "required": ["threads_per_block"]}


def _mapping(properties: dict[str, Any], text: str = "") -> dict[str, Any]:
    about = {"description": text} if text else {}
    return {"type": "object", **about, "additionalProperties": False, "properties": properties}


def _one_of(names: Sequence[str]) -> dict[str, Any]:
    return {"anyOf": [{"required": [name]} for name in names]}
