"""The schema of a policy, as the keys say it. Beyond it, the reader checks regular expressions and devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spillscan.judging.policy.keys import (
    FILES,
    LABEL,
    LAUNCH_KEYS,
    LEVELS,
    OVERRIDE,
    SELECTORS,
    SETTINGS,
    VERSION,
    Key,
    effects,
    keys,
    per_kernel,
)
from spillscan.judging.rule_docs import explanations
from spillscan.model import Rule
from spillscan.model.gaps import gaps

_WORD = {"type": "string", "minLength": 1, "pattern": "^[^\n]+$"}
_LABEL = {"type": "string", "pattern": f"^{LABEL}$"}
_SELECTOR_HELP = {
    "match": "globs, or re: expressions, that must fit a whole name of the kernel: symbol, full name, or short name",
    "arch": "globs of archs: sm_90a, sm_9*",
    "unit": "globs of translation units, as the build log names them",
}


def schema(rules: Sequence[Rule]) -> dict[str, Any]:
    """The schema of ``spillscan.yaml`` and of ``[tool.spillscan]``."""
    values = {name: _value(key) for name, key in keys().items()}
    severity = _mapping(
        {rule.id: {"enum": list(LEVELS), "description": explanations("rules")[rule.id].title} for rule in rules},
        "severity by rule; off: the rule finds nothing",
    )
    entry = {
        **{name: _words(text) for name, text in _SELECTOR_HELP.items()},
        **{name: values[name] for name in per_kernel()},
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
                **values,
                "severity": {"$ref": "#/definitions/severity"},
                "kernels": {
                    "type": "array",
                    "description": "what holds for some kernels; of those that name one, the last wins, key by key",
                    "items": {
                        **_mapping(entry),
                        "allOf": [_one_of(SELECTORS), _one_of(effects())],
                    },
                },
                "accept": {
                    "type": "array",
                    "description": "gaps that are accepted: a gate passes although they may hide something",
                    "items": {**_mapping(_acceptance()), "required": ["gap", "reason"]},
                },
                "labels": {
                    "type": "object",
                    "description": "what templates call their parameters, in order: flags are shown by these names",
                    "propertyNames": {"pattern": f"^{LABEL}$"},
                    "additionalProperties": {"type": "array", "items": {"anyOf": [_LABEL, {"enum": ["", None]}]}},
                },
            }
        ),
        "definitions": {"severity": severity},
    }


def _value(key: Key) -> dict[str, Any]:
    about: dict[str, Any] = {"description": key.help}
    if key.default not in (None, ()):
        about["default"] = key.default
    if key.kind == "files":
        return _files(key.help)
    number = {"type": "integer", "minimum": 0, "maximum": key.largest}
    if key.kind == "limit":
        return {"anyOf": [number, {"const": "none"}], **about}
    if key.kind == "count":
        return {**number, **about}
    if key.kind == "flag":
        return {"type": "boolean", **about}
    if key.kind == "choice":
        return {"enum": list(key.choices), **about}
    return {**_WORD, **about} if key.kind == "path" else {**_words(), **about}


def _files(text: str) -> dict[str, Any]:
    entry = {
        "match": _words("globs, or re: expressions, that must fit a whole name of the file, or its last part"),
        **{name: _value(SETTINGS[name]) for name in FILES},
        "reason": {**_WORD, "description": "why, for those who come after"},
    }
    items = {**_mapping(entry), "required": ["match"], "allOf": [_one_of(FILES)]}
    return {"type": "array", "description": text, "items": items}


def _words(text: str = "") -> dict[str, Any]:
    about = {"description": text} if text else {}
    return {"anyOf": [_WORD, {"type": "array", "items": _WORD, "minItems": 1}], **about}


def _acceptance() -> dict[str, Any]:
    return {
        "gap": {"enum": list(gaps()), "description": "kind of gap"},
        "match": {**_WORD, "description": "glob, or re: expression, that a name of the kernel or the input must fit"},
        "reason": {**_WORD, "description": "why, for those who come after"},
    }


def _launch() -> dict[str, Any]:
    figures: dict[str, Any] = {
        name: {"type": "integer", "minimum": least, "maximum": most} for name, (least, most) in LAUNCH_KEYS.items()
    }
    figures[OVERRIDE] = {"type": "boolean", "description": "whether this counts where the code says another block size"}
    return {**_mapping(figures, "how these kernels are launched"), "required": ["threads_per_block"]}


def _mapping(properties: dict[str, Any], text: str = "") -> dict[str, Any]:
    about = {"description": text} if text else {}
    return {"type": "object", **about, "additionalProperties": False, "properties": properties}


def _one_of(names: Sequence[str]) -> dict[str, Any]:
    return {"anyOf": [{"required": [name]} for name in names]}
