"""The keys of a policy, each stated once: the file, the environment, options, schema and docs are derived from here.

Limits are declared beside the rules that obey them, all else here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, cast

from spillscan.builds.coverage import ISA_OF_RELEASE
from spillscan.model import Level
from spillscan.output.errors import UsageError, nearest

Kind = Literal["limit", "count", "choice", "flag", "names", "path", "files"]
"""``limit``: a whole number or ``none``; ``count``: a whole number; ``choice``: one of some words; ``flag``: true or
false; ``names``: a list of words; ``path``: a file, relative to the policy's own folder; ``files``: entries of them."""

Value = str | int | bool | tuple[Any, ...] | None
"""What a key may hold; ``None``: no limit, nothing given."""

PREFIX = "SPILLSCAN_"
"""Before a key's name in capitals: its environment variable."""

VERSION = 1
"""Version of the policy file that this release reads."""

LARGEST = 2**31 - 1
"""No figure of a kernel is larger."""
LARGEST_FILE = 2**50
"""Nor any file."""


class Key(NamedTuple):
    """One setting."""

    name: str
    """As a policy file calls it."""
    kind: Kind
    """What it holds."""
    default: Value
    """What holds where the policy says nothing."""
    help: str
    """One line: what it is, with its unit."""
    scope: Literal["build", "change", "both", "all"] = "all"
    """Limits: whether a build, a change or either is held against it. ``all``: no limit of a kernel, but of the whole
    run."""
    choices: tuple[str, ...] = ()
    """The words of a ``choice``."""
    largest: int = LARGEST
    """Largest whole number."""
    unpacking: bool = False
    """Whether it bounds what a hostile binary or archive may make of itself."""

    @property
    def per_kernel(self) -> bool:
        """Whether an entry may set it for the kernels that it names."""
        return self.scope != "all"

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return PREFIX + self.name.upper()

    @property
    def option(self) -> str:
        """What gives it on the command line."""
        return OPTIONS.get(self.name, f"--set {self.name}")


OPTIONS = {"fail_on": "--fail-on", "strict": "--strict", "baseline": "--baseline", "devices": "--device"}
"""Keys that have options of their own."""


def _unpacking(name: str, default: int, text: str) -> Key:
    return Key(name=name, kind="count", default=default, help=text, unpacking=True)


SETTINGS: dict[str, Key] = {
    key.name: key
    for key in (
        Key(
            name="fail_on",
            kind="choice",
            default="error",
            help="mildest finding that fails a gate",
            choices=("error", "warning", "note", "never"),
        ),
        Key(name="strict", kind="flag", default=False, help="exit 2 if anything in the input was not understood"),
        Key(
            name="expect_kernels",
            kind="count",
            default=None,
            help="fewest kernels that a build must have; fewer is exit 2",
        ),
        Key(
            name="max_removed",
            kind="count",
            default=None,
            help="most kernels that may be gone from a newer build unexplained; more is exit 2",
        ),
        Key(
            name="devices",
            kind="names",
            default=(),
            help="devices on which resident blocks count, such as H100 or sm_90; without, each kernel's own arch",
        ),
        Key(
            name="require_archs",
            kind="names",
            default=(),
            help="what each binary must hold: machine code (sm_90a), PTX for a GPU and all later ones (compute_120)",
        ),
        Key(
            name="driver_release",
            kind="choice",
            default=None,
            help='CUDA release whose drivers must take all PTX, such as "12.4"',
            choices=tuple(ISA_OF_RELEASE),
        ),
        Key(
            name="max_file_bytes",
            kind="limit",
            default=None,
            help="most bytes that an input of size may have, as it is stored",
            largest=LARGEST_FILE,
        ),
        Key(name="files", kind="files", default=(), help="the three above, for some files"),
        _unpacking("max_unpack_ratio", 128, "most bytes that one stored byte of a binary or archive may become"),
        _unpacking("max_member_mib", 4096, "largest member of a binary or archive, decompressed, in MiB"),
        _unpacking("max_nesting", 6, "most containers inside each other"),
        _unpacking("max_members", 1 << 17, "most members of all containers in one input"),
        Key(name="baseline", kind="path", default=None, help="file of the findings that are known and accepted"),
    )
}
"""Every key that holds one value for the whole run, by name."""


FILES = ("require_archs", "driver_release", "max_file_bytes")
"""Keys that an entry of ``files`` may set."""


@cache
def keys() -> Mapping[str, Key]:
    """Every key that holds one value, by name: the limits of the rules, then :data:`SETTINGS`."""
    from spillscan.judging.rules import all_limits

    limits = (
        Key(
            name=limit.name,
            kind="choice" if limit.words else "limit",
            default=limit.words[-1] if limit.words else limit.default,
            help=limit.help,
            scope=limit.judges,
            choices=limit.words,
        )
        for limit in all_limits()
    )
    return {key.name: key for key in limits} | SETTINGS


def per_kernel() -> tuple[str, ...]:
    """Names of the keys that an entry may set."""
    return tuple(name for name, key in keys().items() if key.per_kernel)


LAUNCH_KEYS: Mapping[str, tuple[int, int]] = {
    "threads_per_block": (1, 1024),
    "dynamic_shared_bytes": (0, LARGEST),
    "max_dynamic_shared_bytes": (0, LARGEST),
    "carveout_percent": (0, 100),
    "cluster_blocks": (1, 16),
}
"""Keys of a launch with their (least, largest) value: fields of :class:`~spillscan.model.Launch`."""

OVERRIDE = "override"
"""The key of a launch by which it counts, whatever the code says."""

LABEL = "[A-Za-z_][A-Za-z0-9_]*"
"""What templates and their parameters may be called in ``labels``."""

LEVELS = ("error", "warning", "note", "off")
"""What a rule's severity may be set to."""

SELECTORS = ("match", "arch", "unit")
"""Keys of an entry that say for which kernels it holds."""


def effects() -> tuple[str, ...]:
    """Keys of an entry that say what holds."""
    return (*per_kernel(), "severity", "launch")


_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def value_of(key: Key, text: str) -> Value:
    """What ``text`` says for ``key``; :class:`~spillscan.UsageError` where it cannot."""
    if key.kind in ("limit", "count"):
        if key.kind == "limit" and text == "none":
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 16 or int(text) > key.largest:
            also = " or none" if key.kind == "limit" else ""
            raise UsageError(f"must be a whole number of 0 or more{also}, not {text[:60]!r}")
        return int(text)
    if key.kind == "flag":
        if text.lower() not in _TRUTH:
            raise UsageError(f"must be true or false, not {text[:60]!r}")
        return _TRUTH[text.lower()]
    if key.kind == "names":
        return tuple(word.strip() for word in text.split(",") if word.strip())
    if key.kind == "files":
        raise UsageError("entries can be given in a policy file only", "write them there")
    if key.kind == "choice" and text not in key.choices:
        raise UsageError(f"must be {', '.join(key.choices[:-1])} or {key.choices[-1]}, not {text[:60]!r}")
    return text


def level_of(text: str) -> tuple[str, Level]:
    """``RULE=LEVEL`` as (rule id, level)."""
    from spillscan.judging.rules import all_rules

    rule, equals, word = (part.strip() for part in text.partition("="))
    if not equals or word not in LEVELS:
        raise UsageError(f"{text[:60]!r} sets no severity", f"write RULE=LEVEL, LEVEL one of {', '.join(LEVELS)}")
    if rule not in all_rules():
        raise UsageError(f"unknown rule {rule[:60]!r}", nearest(rule, all_rules()))
    return rule, cast(Level, word)
