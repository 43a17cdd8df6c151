"""Policy file: each key once, with its type, default and meaning.

``msgspec`` checks a file against these types, the JSON schema is made of them, and options are read as if they were in
a file. A mistake is located by its path in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from spillscan.model.nodes import Node, described
from spillscan.output.errors import UsageError, nearest

LARGEST = 2**31 - 1
"""Largest value that a policy accepts."""
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Limit = Count | Literal["none"]
"""``none`` lifts a limit that another entry or layer sets."""
Bytes = Annotated[int, Meta(ge=0, le=2**50)] | Literal["none"]
Word = Annotated[str, Meta(min_length=1)]  # no pattern: msgspec 0.22 over-releases one that types share
Words = Word | Annotated[list[Word], Meta(min_length=1)]
FailOn = Literal["error", "warning", "note", "never"]
Level = Literal["error", "warning", "note", "off"]


def _says(text: str) -> Meta:
    return Meta(description=text)


class _Table(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A mapping in the file."""


class LaunchEntry(_Table, frozen=True):
    """Launch of kernels."""

    threads_per_block: Annotated[int, Meta(ge=1, le=1024)]
    dynamic_shared_bytes: Count = 0
    max_dynamic_shared_bytes: Count | None = None
    carveout_percent: Annotated[int, Meta(ge=0, le=100)] | None = None
    cluster_blocks: Annotated[int, Meta(ge=1, le=16)] = 1
    override: Annotated[bool, _says("the launch counts although the code says another block size")] = False


class Limits(_Table, frozen=True):
    """Limits on kernels, and severities of rules."""

    max_spill_bytes: Annotated[Limit, _says("spill stores plus loads, bytes per thread")] = 0
    max_registers: Annotated[Limit, _says("registers per thread")] = "none"
    max_stack_bytes: Annotated[Limit, _says("stack, bytes per thread")] = "none"
    max_shared_bytes: Annotated[Limit, _says("shared memory, bytes per block")] = "none"
    max_code_bytes: Annotated[Limit, _says("machine code, bytes per kernel")] = "none"
    min_blocks_per_sm: Annotated[Limit, _says("resident blocks per SM at the kernel's launch")] = "none"
    max_spill_growth_bytes: Annotated[Limit, _says("growth of spill stores or loads, bytes per thread")] = 0
    max_register_growth: Annotated[Limit, _says("growth in registers per thread")] = 0
    max_code_growth_percent: Annotated[Limit, _says("growth of machine code, percent")] = "none"
    severity: Annotated[dict[str, Level], _says("severity by rule; off: the rule finds nothing")] = field(
        default_factory=dict
    )


class KernelEntry(Limits, frozen=True):
    """Settings of the kernels that it matches; of several entries for a kernel, the last wins, key by key."""

    match: Annotated[Words, _says("globs or re: patterns on kernel names")] = "*"
    arch: Annotated[Words, _says("globs on archs")] = "*"
    unit: Annotated[Words, _says("globs on translation units")] = "*"
    launch: LaunchEntry | None = None
    reason: Annotated[Word | None, _says("for people")] = None


class AcceptEntry(_Table, frozen=True):
    """Accepted findings of a rule, or accepted gaps of a kind."""

    reason: Annotated[Word, _says("why it is accepted")]
    rule: Annotated[str | None, _says("a rule, such as spill")] = None
    gap: Annotated[str | None, _says("a kind of gap, such as registers-not-final")] = None
    kernel: Annotated[Word, _says("glob on the kernel's names; of a gap without kernel, on its input")] = "*"
    arch: Annotated[Words, _says("globs on archs")] = "*"
    until: Annotated[date | None, _says("last day on which it holds (UTC)")] = None


class PolicyFile(Limits, frozen=True):
    """A policy file."""

    version: Literal[1] = 1
    fail_on: Annotated[FailOn, _says("lowest severity that fails a gate")] = "error"
    expect_kernels: Annotated[Count | None, _says("kernels in a build; fewer exit with 2")] = None
    devices: Annotated[Words | None, _says("devices for blocks per SM; default: the kernel's arch")] = None
    require_archs: Annotated[Words | None, _says("code in each binary: sm_90a (machine code), compute_120 (PTX)")] = (
        None
    )
    driver_release: Annotated[Word | None, _says('CUDA release whose drivers load all PTX, such as "12.4"')] = None
    max_file_bytes: Annotated[Bytes, _says("file size, bytes (`size`)")] = "none"
    baseline: Annotated[Word | None, _says("baseline file, relative to the policy's folder")] = None
    kernels: Annotated[list[KernelEntry], _says("limits, severities and launches for some kernels")] = field(
        default_factory=list
    )
    accept: Annotated[list[AcceptEntry], _says("findings and gaps that are accepted")] = field(default_factory=list)
    renamed: Annotated[dict[str, str], _says("old name: new name, for kernels that were renamed (globs)")] = field(
        default_factory=dict
    )


class Key(NamedTuple):
    """A key with a single value."""

    name: str
    default: Any
    """``None`` if it is not set."""
    help: str
    per_kernel: bool
    """Whether an entry of ``kernels`` may set it."""


LIMITS = tuple(name for name in Limits.__struct_fields__ if name != "severity")
SETTINGS = ("fail_on", "expect_kernels", "devices", "require_archs", "driver_release", "max_file_bytes", "baseline")


@cache
def keys() -> Mapping[str, Key]:
    """Keys with a single value, limits first."""
    defaults = {each.name: each.default for each in msgspec.structs.fields(PolicyFile)}
    properties = schema()["$defs"]["PolicyFile"]["properties"]
    return {
        name: Key(name, value_of(defaults[name]), properties[name]["description"], name in LIMITS)
        for name in (*LIMITS, *SETTINGS)
    }


def value_of(value: Any) -> Any:
    """A key's value as the policy uses it: a list of words as a tuple, ``none`` as ``None``."""
    return tuple(value) if isinstance(value, list) else None if value == "none" else value


def words(value: Words | None) -> tuple[str, ...]:
    """A word or a list of words as a tuple."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


@cache
def schema() -> dict[str, Any]:
    """JSON schema of the file."""
    from spillscan.judging.rules import all_rules
    from spillscan.model.gaps import gaps

    made = msgspec.json.schema(PolicyFile)
    tables = made["$defs"]
    for table in ("PolicyFile", "KernelEntry"):
        tables[table]["properties"]["severity"]["propertyNames"] = {"enum": [*all_rules()]}
    for name, known in (("rule", [*all_rules()]), ("gap", [*gaps()])):
        tables["AcceptEntry"]["properties"][name]["enum"] = [*known, None]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "spillscan policy", **made}


# ---- reading ----------------------------------------------------------------------------------------------------


def policy_file(root: Node) -> PolicyFile:
    """Content of a file. Raises :class:`UsageError` with the place of the first mistake."""
    for table in (root, *items(root, "kernels")):
        if isinstance(table.value, Mapping) and "severity" in table.value:
            _check_severity(table.value["severity"])
    try:
        return msgspec.convert(root.plain, PolicyFile)
    except msgspec.ValidationError as error:
        raise _mistake(root, str(error)) from None


def items(root: Node, name: str) -> Sequence[Node]:
    """Nodes of a list in the file."""
    found = root.value.get(name) if isinstance(root.value, Mapping) else None
    listed = found.value if found is not None else ()
    return listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()


def _check_severity(node: Node) -> None:
    from spillscan.judging.rules import all_rules

    for rule, level in (node.value if isinstance(node.value, Mapping) else {}).items():
        if rule not in all_rules():
            raise level.error(f"unknown rule {described(rule)}", nearest(rule, all_rules()))
        if level.value not in ("error", "warning", "note", "off"):
            expected = "error, warning, note or off"
            raise level.error(f"severity of {rule}: expected {expected}, got {described(level.value)}")


_LEVELS = ["error", "warning", "note", "off", "never"]
_SAID = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?(?P<path>[^`]*)`)?")
_FIELD = re.compile(r"Object (?P<problem>contains unknown|missing required) field `(?P<name>.*)`", re.DOTALL)


def _mistake(root: Node, said: str) -> UsageError:
    """Error of msgspec as one line with its place."""
    match = _SAID.fullmatch(said)
    assert match
    node, name, expected = root, "", schema()["$defs"]["PolicyFile"]
    for key, index in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", match["path"] or ""):
        expected = _inner(expected, key)
        if key and isinstance(node.value, Mapping) and key in node.value:
            node, name = node.value[key], f"{key}: "
        elif index.isdigit() and isinstance(node.value, Sequence):
            node = node.value[int(index)]  # type: ignore[assignment]
    if of_field := _FIELD.fullmatch(match["what"]):
        field_name, known = of_field["name"], _resolved(expected)["properties"]
        if of_field["problem"].startswith("missing"):
            return node.error(f"{name}needs `{field_name}`", known[field_name].get("description", ""))
        assert isinstance(node.value, Mapping)
        return node.value[field_name].error(
            f"unknown key {described(field_name)}", nearest(field_name, known) or "`spillscan config` lists the keys"
        )
    return node.error(f"{name}expected {_phrase(expected)}, got {described(node.value)}")


def _resolved(part: dict[str, Any]) -> dict[str, Any]:
    """Schema of a mapping, with references and alternatives resolved."""
    for each in (part, *part.get("anyOf", ())):
        if "$ref" in each:
            found: dict[str, Any] = schema()["$defs"][each["$ref"].rpartition("/")[2]]
            return found
    return part


def _inner(part: dict[str, Any], key: str) -> Any:
    """Schema of a key, or of the items of a list."""
    whole = _resolved(part)
    if key:
        return whole["properties"].get(key, {}) if "properties" in whole else whole.get("additionalProperties", {})
    lists = [each for each in (whole, *whole.get("anyOf", ())) if "items" in each]
    return lists[0]["items"] if lists else whole.get("additionalProperties", {})


def _phrase(part: dict[str, Any]) -> str:
    """Values that a schema accepts: ``a whole number ≥ 0 or none``."""
    if "anyOf" in part:
        return " or ".join(_phrase(each) for each in part["anyOf"] if each.get("type") != "null")
    if "enum" in part:
        known = [str(each) for each in part["enum"] if each is not None]  # in alphabetical order
        *first, last = sorted(known, key=_LEVELS.index) if set(known) <= set(_LEVELS) else known
        return f"{', '.join(first)} or {last}" if first else last
    if part.get("type") == "integer":
        least, most = part.get("minimum"), part.get("maximum")
        span = f" from {least:,} to {most:,}" if least is not None and most not in (None, LARGEST) else f" ≥ {least}"
        return f"a whole number{span if least is not None else ''}"
    if part.get("format") == "date":
        return "a day such as 2030-01-31"
    names = {"string": "a word", "boolean": "true or false", "array": "a list"}
    return names.get(part.get("type", ""), "a mapping")
