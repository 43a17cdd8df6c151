"""Policy file: each key once, with its type, default and meaning.

``msgspec`` checks a file against these types, the JSON schema is made of them, and options are read as if they were in
a file. A mistake is located by its path in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from spillscan.model.nodes import Node, described
from spillscan.output.errors import nearest

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
    override: Annotated[bool, _says("the launch counts even if the code has another block size")] = False


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

    match: Annotated[Words, _says("globs on kernel names")] = "*"
    arch: Annotated[Words, _says("globs on archs")] = "*"
    unit: Annotated[Words, _says("globs on translation units")] = "*"
    launch: LaunchEntry | None = None
    reason: Annotated[Word | None, _says("a note for readers")] = None


class AcceptEntry(_Table, frozen=True):
    """Accepted findings of a rule, or accepted gaps of a kind."""

    reason: Annotated[Word, _says("why it is accepted")]
    rule: Annotated[str | None, _says("a rule, such as spill")] = None
    gap: Annotated[str | None, _says("a kind of gap, such as registers-not-final")] = None
    kernel: Annotated[Word, _says("glob on the kernel's names; of a gap without kernel, on its input")] = "*"
    arch: Annotated[Words, _says("globs on archs")] = "*"
    until: Annotated[date | None, _says("last valid day (UTC)")] = None


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
    """A key with a single value; limits may also be set for some kernels."""

    name: str
    default: Any
    """``None`` if it is not set."""

    @property
    def help(self) -> str:
        """Meaning of the key."""
        return str(schema()["$defs"]["PolicyFile"]["properties"][self.name]["description"])


LIMITS = tuple(name for name in Limits.__struct_fields__ if name != "severity")
SETTINGS = ("fail_on", "expect_kernels", "devices", "require_archs", "driver_release", "max_file_bytes", "baseline")


@cache
def keys() -> Mapping[str, Key]:
    """Keys with a single value, limits first."""
    defaults = {each.name: each.default for each in msgspec.structs.fields(PolicyFile)}
    return {name: Key(name, value_of(defaults[name])) for name in (*LIMITS, *SETTINGS)}


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

T = TypeVar("T", bound=_Table)
_TABLES: Mapping[str, type[_Table]] = {"kernels": KernelEntry, "accept": AcceptEntry}
"""Keys whose values are lists of tables."""


def table(node: Node, kind: type[T], name: str = "") -> T:
    """Content of a table. Raises :class:`UsageError` with the place of the first mistake."""
    known = {each.name: each for each in msgspec.structs.fields(kind)}
    if not isinstance(node.value, Mapping):
        raise node.error(f"{name}expected a mapping, got {described(node.value)}")
    for key, each in node.value.items():
        if key not in known:
            above = {field.name for field in msgspec.structs.fields(KernelEntry)} if kind is LaunchEntry else ()
            hint = f"{key} belongs in the entry of kernels, next to launch" if key in above else nearest(key, known)
            raise each.error(f"unknown key {described(key)}", hint or "`spillscan config` lists the keys")
        if key in _TABLES and isinstance(each.value, list):
            for inner in each.value:
                table(inner, _TABLES[key], f"{key}: ")
        elif key == "launch":
            table(each, LaunchEntry, "launch: ")
        if key == "severity" and isinstance(each.value, Mapping):
            _check_severity(each.value)
        try:
            msgspec.convert(each.plain, known[key].type)
        except msgspec.ValidationError:
            expected = _phrase(_properties(kind)[key])
            raise each.error(f"{key}: expected {expected}, got {described(each.value)}") from None
    for key, of_key in known.items():
        if of_key.required and key not in node.value:
            raise node.error(f"{name}needs `{key}`", _properties(kind)[key].get("description", ""))
    return msgspec.convert(node.plain, kind)


def _properties(kind: type[_Table]) -> dict[str, Any]:
    """Schema of each key of a table; composed only for an error, which it explains."""
    properties: dict[str, Any] = schema()["$defs"][kind.__name__]["properties"]
    return properties


def _check_severity(levels: Mapping[str, Node]) -> None:
    from spillscan.judging.rules import all_rules

    for rule, level in levels.items():
        if rule not in all_rules():
            raise level.error(f"unknown rule {described(rule)}", nearest(rule, all_rules()))
        if level.value not in _LEVELS[:4]:
            expected = "error, warning, note or off"
            raise level.error(f"severity of {rule}: expected {expected}, got {described(level.value)}")


_LEVELS = ["error", "warning", "note", "off", "never"]


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
