"""The keys of a policy, each stated once: the file, the environment, options, schema and docs are derived from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["limit", "count", "choice", "flag", "names", "path"]
"""``limit``: a whole number or ``none``; ``count``: a whole number; ``choice``: one of some words; ``flag``: true or
false; ``names``: a list of words; ``path``: a file, relative to the policy's own folder."""

Value = str | int | bool | tuple[str, ...] | None
"""What a key may hold; ``None``: no limit, nothing given."""

PREFIX = "SPILLSCAN_"
"""Before a key's name in capitals: its environment variable."""

VERSION = 1
"""Version of the policy file that this release reads."""

LARGEST = 2**31 - 1
"""No figure of a kernel is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting."""

    name: str
    """As a policy file calls it; of a limit, the field of :class:`~spillscan.policy.terms.Limits`."""
    kind: Kind
    """What it holds."""
    default: Value
    """What holds where nobody said."""
    help: str
    """One line: what it is, with its unit."""
    scope: Literal["build", "change", "all"] = "all"
    """Limits: whether a build or a change is held against it. ``all``: no limit of a kernel, but of the whole run."""
    choices: tuple[str, ...] = ()
    """The words of a ``choice``."""
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
        """Its option on the command line."""
        return "--" + self.name.replace("_", "-")


def _limit(name: str, scope: Literal["build", "change"], default: int | None, text: str) -> Key:
    return Key(name=name, kind="limit", default=default, help=text, scope=scope)


def _unpacking(name: str, default: int, text: str) -> Key:
    return Key(name=name, kind="count", default=default, help=text, unpacking=True)


KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        _limit("max_spill_bytes", "build", 0, "most bytes of spill stores and loads together, per thread"),
        _limit("max_registers", "build", None, "most registers per thread"),
        _limit("max_stack_bytes", "build", None, "most bytes of stack per thread"),
        _limit("max_shared_bytes", "build", None, "most bytes of shared memory per block"),
        _limit("min_blocks_per_sm", "build", None, "fewest resident blocks per SM at the kernel's launch"),
        _limit("max_spill_growth_bytes", "change", 0, "most bytes by which spill stores or spill loads may grow"),
        _limit("max_register_growth", "change", 0, "most registers per thread by which a kernel may grow"),
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
            name="devices",
            kind="names",
            default=(),
            help="devices on which resident blocks count, such as H100 or sm_90; without, each kernel's own arch",
        ),
        _unpacking("max_unpack_ratio", 128, "most bytes that one stored byte of a binary or archive may become"),
        _unpacking("max_member_mib", 4096, "largest member of a binary or archive, decompressed, in MiB"),
        _unpacking("max_nesting", 6, "most containers inside each other"),
        _unpacking("max_members", 1 << 17, "most members of all containers in one input"),
        Key(name="baseline", kind="path", default=None, help="file of the findings that are known and accepted"),
    )
}
"""Every key that holds one value, by name."""

LAUNCH_KEYS: Mapping[str, tuple[int, int]] = {
    "threads_per_block": (1, 1024),
    "dynamic_shared_bytes": (0, LARGEST),
    "max_dynamic_shared_bytes": (0, LARGEST),
    "carveout_percent": (0, 100),
    "cluster_blocks": (1, 16),
}
"""Keys of a launch with their (least, largest) value: fields of :class:`~spillscan.occupancy.model.Launch`."""

LEVELS = ("error", "warning", "note", "off")
"""What a rule's severity may be set to."""
