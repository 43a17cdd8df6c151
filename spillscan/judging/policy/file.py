"""Policy file: each key once, with its type, default and meaning.

``msgspec`` checks a file against these types, the JSON schema is made of them, and options are read as if they were in
a file. A mistake is located by its path in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from spillscan.model.nodes import Node, described
from spillscan.output.errors import UsageError, nearest

LARGEST = 2**31 - 1
"""Largest value that a policy accepts."""


def _whole(least: int, most: int = LARGEST) -> Meta:
    """A whole number in this range."""
    span = f"≥ {least}" if most == LARGEST else f"from {least:,} to {most:,}"
    return Meta(ge=least, le=most, title=f"a whole number {span}")


def _about(text: str) -> Meta:
    return Meta(description=text)


Count = Annotated[int, _whole(0)]
Limit = Annotated[Count | Literal["none"], Meta(title="a whole number ≥ 0 or none")]
"""``none`` lifts a limit that another entry or layer sets."""
Bytes = Annotated[
    Annotated[int, _whole(0, 2**50)] | Literal["none"], Meta(title=f"a whole number from 0 to {2**50:,} or none")
]
Word = Annotated[str, Meta(min_length=1, title="a word")]  # no pattern: msgspec 0.22 over-releases one that types share
Words = Annotated[Word | Annotated[list[Word], Meta(min_length=1)], Meta(title="a word or a list of words")]
FailOn = Annotated[Literal["error", "warning", "note", "never"], Meta(title="error, warning, note or never")]
LEVELS = ("error", "warning", "note", "off")


class _Table(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A mapping in the file."""


class LaunchEntry(_Table, frozen=True):
    """Launch of kernels."""

    threads_per_block: Annotated[int, _whole(1, 1024)]
    dynamic_shared_bytes: Count = 0
    max_dynamic_shared_bytes: Count | None = None
    carveout_percent: Annotated[int, _whole(0, 100)] | None = None
    cluster_blocks: Annotated[int, _whole(1, 16)] = 1
    override: Annotated[bool, _about("this launch is used even if the code has another block size")] = False


class Limits(_Table, frozen=True):
    """Limits on kernels, and severities of rules."""

    max_spill_bytes: Annotated[Limit, _about("spill stores plus loads, bytes per thread")] = 0
    max_registers: Annotated[Limit, _about("registers per thread")] = "none"
    max_stack_bytes: Annotated[Limit, _about("stack, bytes per thread")] = "none"
    max_shared_bytes: Annotated[Limit, _about("shared memory, bytes per block")] = "none"
    max_code_bytes: Annotated[Limit, _about("machine code, bytes per kernel")] = "none"
    min_blocks_per_sm: Annotated[Limit, _about("resident blocks per SM at the kernel's block size")] = "none"
    max_spill_growth_bytes: Annotated[Limit, _about("growth of spill stores or loads, bytes per thread")] = 0
    max_register_growth: Annotated[Limit, _about("growth in registers per thread")] = 0
    max_code_growth_percent: Annotated[Limit, _about("growth of machine code, percent")] = "none"
    severity: Annotated[dict[str, Any], _about("severity by rule; off disables the rule")] = field(default_factory=dict)


class KernelEntry(Limits, frozen=True):
    """Settings of the kernels that it matches; of several entries for a kernel, the last wins, key by key."""

    match: Annotated[Words, _about("globs on kernel names")] = "*"
    arch: Annotated[Words, _about("globs on archs")] = "*"
    unit: Annotated[Words, _about("globs on translation units")] = "*"
    launch: LaunchEntry | None = None
    reason: Annotated[Word | None, _about("a note for readers")] = None


class AcceptEntry(_Table, frozen=True):
    """Accepted findings of a rule, or accepted gaps of a kind."""

    reason: Annotated[Word, _about("why it is accepted")]
    rule: Annotated[Word | None, _about("a rule, such as spill")] = None
    gap: Annotated[Word | None, _about("a kind of gap, such as registers-not-final")] = None
    kernel: Annotated[Word, _about("glob on the kernel's names, or on the input of a gap")] = "*"
    arch: Annotated[Words, _about("globs on archs")] = "*"
    until: Annotated[date | None, Meta(title="a day such as 2030-01-31"), _about("last valid day (UTC)")] = None


class PolicyFile(Limits, frozen=True):
    """A policy file."""

    version: Annotated[Literal[1], Meta(title="1")] = 1
    fail_on: Annotated[FailOn, _about("lowest severity that fails a gate")] = "error"
    expect_kernels: Annotated[Count | None, _about("minimum number of kernels; fewer are reported as a gap")] = None
    devices: Annotated[Words | None, _about("devices to check blocks per SM for; default: the kernel's arch")] = None
    require_archs: Annotated[
        Words | None, _about("code that each binary must contain, such as sm_90a or compute_120 (PTX)")
    ] = None
    max_file_bytes: Annotated[Bytes, _about("size of each file, bytes (checked by `size`)")] = "none"
    baseline: Annotated[Word | None, _about("baseline file (path relative to the policy's folder), or `none`")] = None
    kernels: Annotated[list[KernelEntry], _about("limits, severities and launches for some kernels")] = field(
        default_factory=list
    )
    accept: Annotated[list[AcceptEntry], _about("findings and gaps that are accepted")] = field(default_factory=list)
    renamed: Annotated[dict[str, Any], _about("old name: new name, for kernels that were renamed (globs)")] = field(
        default_factory=dict
    )


LIMITS = tuple(name for name in Limits.__struct_fields__ if name != "severity")
SETTINGS = ("fail_on", "expect_kernels", "devices", "require_archs", "max_file_bytes", "baseline")


KEYS = (*LIMITS, *SETTINGS)
"""Keys with a single value."""


def default_of(key: str) -> Any:
    """Value of ``key`` if no layer sets it."""
    return value_of(getattr(PolicyFile(), key))


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
    tables["PolicyFile"]["properties"]["renamed"]["additionalProperties"] = {"type": "string"}
    for table in ("PolicyFile", "KernelEntry"):
        levels = {"propertyNames": {"enum": [*all_rules()]}, "additionalProperties": {"enum": LEVELS}}
        tables[table]["properties"]["severity"].update(levels)
    for name, known in (("rule", [*all_rules()]), ("gap", [*gaps()])):
        tables["AcceptEntry"]["properties"][name]["enum"] = [*known, None]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "spillscan policy", **made}


# ---- reading ----------------------------------------------------------------------------------------------------

_TABLES = {"": PolicyFile, "kernels": KernelEntry, "accept": AcceptEntry, "launch": LaunchEntry}
"""Tables by the key that contains them."""
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_EXPECTED = re.compile("Expected `(?P<type>[a-z]+)")
_TYPES = {"object": "a mapping", "array": "a list", "str": "a word", "bool": "true or false"}


def policy_file(root: Node) -> PolicyFile:
    """Content of a file. Raises :class:`UsageError` with the place of the first mistake."""
    try:
        return msgspec.convert(root.plain, PolicyFile)
    except msgspec.ValidationError as error:
        raise _unknown(root, "") or _mistake(root, str(error)) from None


def _mistake(root: Node, message: str) -> UsageError:
    """Error at the value that ``msgspec`` names by its path: ``… - at `$.kernels[0].launch```."""
    node, key = root, ""
    for name, number in _STEP.findall(message.rpartition(" - at `$")[2]):
        children: Any = node.value
        key, node = name or key, children[name or int(number)]
    if unknown := _unknown(node, key):
        return unknown
    if missing := re.search("required field `(.*?)`", message):
        return node.error(f"`{key}` needs `{missing[1]}`")
    return node.error(f"{key}: expected {_accepted(key, message)}, got {described(node.value)}".removeprefix(": "))


def _unknown(node: Node, key: str) -> UsageError | None:
    """Error for the first unknown key of a table."""
    if key not in _TABLES or not isinstance(node.value, Mapping):
        return None
    known = _TABLES[key].__struct_fields__
    for name in (each for each in node.value if each not in known):
        hint = nearest(name, known) or f"the keys are {', '.join(known)}"
        if key == "launch" and name in KernelEntry.__struct_fields__:
            hint = f"{name} belongs next to `launch`, in the same entry of `kernels`"
        return node.value[name].error(f"unknown key {described(name)}", hint)
    return None


def _accepted(key: str, message: str) -> str:
    """Values that a key accepts: ``a whole number ≥ 0 or none``."""
    tables = (schema()["$defs"][each.__name__]["properties"] for each in _TABLES.values())
    part: dict[str, Any] = next((properties[key] for properties in tables if key in properties), {})
    titles = [each["title"] for each in (part, *part.get("anyOf", ())) if "title" in each]
    named = _EXPECTED.match(message)
    return titles[0] if titles else _TYPES.get(named["type"] if named else "", "another value")
