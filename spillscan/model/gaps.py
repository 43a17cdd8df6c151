"""Problems that an input may have, each kind declared once, with what it may hide.

An issue whose kind hides something that a gate checks is a *gap*: the gate cannot pass, unless the policy accepts it.
``docs/explain/gaps.md`` explains each kind and its fix; ``explain`` and error messages quote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from spillscan.model.usage import Origin, Severity

Hidden = Literal["kernels", "spills", "registers", "stack", "shared", "code", "launch", "messages"]
"""Data that may be missing if an input was not understood.

``kernels``: whole kernels, with all their metrics; ``messages``: other compiler messages about a kernel.
"""

EVERYTHING: tuple[Hidden, ...] = (
    "kernels",
    "spills",
    "registers",
    "stack",
    "shared",
    "code",
    "launch",
    "messages",
)

KINDS: Mapping[str, tuple[Hidden, ...]] = {
    "no-kernel": ("kernels",),
    "unreadable": ("kernels",),
    "nothing-recognised": ("kernels",),
    "left-out-report": (),
    "left-out": (),
    "unfinished-unit": ("kernels",),
    "stale-unit": EVERYTHING,
    "unknown-headers": (),
    "changed-input": EVERYTHING,
    "interleaved": (),
    "build-failed": ("kernels",),
    "build-incomplete": ("kernels",),
    "unreported-unit": ("kernels",),
    "step-retried": (),
    "host-step-failed": (),
    "truncated": EVERYTHING,
    "damaged-listing": EVERYTHING,
    "unknown-line": (),
    "torn-line": ("kernels", "spills", "registers", "stack", "shared"),
    "line-too-long": EVERYTHING,
    "lost-lines": ("kernels", "spills", "registers", "stack", "shared"),
    "unread-spill-warning": ("spills",),
    "unknown-clause": (),
    "unnamed-kernel": EVERYTHING,
    "unattached-advisory": (),
    "unattached-setmaxnreg": ("messages",),
    "mixed-input": EVERYTHING,
    "unsupported-arch": EVERYTHING,
    "unknown-arch": ("spills", "code"),
    "unknown-opcode": (),
    "damaged": ("kernels",),
    "unopened-member": ("kernels",),
    "selected-kernels": ("kernels",),
    "ptx-only": ("kernels",),
    "damaged-lines": (),
    "tool-message": (),
    "undecodable": (),
    "spill-mismatch": ("spills",),
    "registers-mismatch": ("registers",),
    "shared-mismatch": ("shared",),
    "setmaxnreg-mismatch": ("registers",),
    "launch-mismatch": ("launch",),
    "ambiguous-sass": ("code",),
    "not-in-dump": ("code",),
    "not-in-log": (),
    "policy-names-nothing": (),
    "launch-overruled": (),
    "accept-expired": (),
    "accept-expires": (),
    "removed-kernels": (),
    "renamed-kernels": (),
    "stale-kernels": (),
    "unrecorded-kernels": (),
    "other-toolkit": (),
    "unknown-spills": ("spills",),
    "registers-not-final": ("registers",),
    "unknown-registers": ("registers",),
    "unknown-stack": ("stack",),
    "unknown-shared": ("shared",),
    "unknown-blocks": ("launch",),
    "unknown-code": ("code",),
    "fewer-kernels": ("kernels",),
    "not-comparable": ("spills", "registers", "stack", "shared", "code", "launch"),
    "unit-missing": ("kernels",),
    "arch-missing": ("kernels",),
    "arch-required": ("kernels",),
    "kernels-missing": ("kernels",),
    "nothing-compared": ("kernels",),
    "profile-unmatched": (),
    "profile-contradicts": (),
    "profiler-error": (),
}
"""Data that each kind of issue may hide from a gate, by code, unless an issue overrides it; ``()``: nothing."""
_SOMETIMES: Mapping[str, tuple[Hidden, ...]] = {"unknown-line": EVERYTHING, "unknown-opcode": ("registers", "code")}
"""Data that single issues of these kinds hide."""
_WORDS = {"shared": "shared memory", "code": "machine code", "launch": "block sizes", "messages": "compiler messages"}


class Issue(Struct, frozen=True, kw_only=True, gc=False):
    """Problem with the input: something that was not understood, is contradictory, or cannot be decided."""

    code: str
    """Kind of the issue, as declared by :data:`spillscan.model.gaps.KINDS`: ``unknown-line``, ``truncated`` …"""
    message: str
    """The problem in one line, with its fix if there is one."""
    severity: Severity = "warning"
    """``error`` if metrics are missing because of it, ``warning`` if they might be, ``note`` otherwise."""
    origin: Origin | None = None
    """Place where it was seen."""
    hides: tuple[Hidden, ...] | None = None
    """Data that it may hide; ``None``: those of its kind."""
    symbol: str = ""
    """Kernel that it is about, as the tool printed it; empty for the whole input."""

    @property
    def hidden(self) -> tuple[Hidden, ...]:
        """Data that it may hide from a gate; an error of a kind from another release may hide everything."""
        if self.hides is not None:
            return self.hides
        return KINDS.get(self.code, EVERYTHING if self.severity == "error" else ())


def unread(issues: Iterable[Issue]) -> frozenset[str]:
    """Files of which kernels or machine code may not have been read, as an issue says."""
    gaps = (each for each in issues if not {"kernels", "code"}.isdisjoint(each.hidden))
    return frozenset(each.origin.input for each in gaps if each.origin is not None)


def may_hide(code: str) -> tuple[str, ...]:
    """Data that an issue of this kind may hide, in words; empty if it is never a gap."""
    return tuple(_WORDS.get(each, each) for each in KINDS[code] or _SOMETIMES.get(code, ()))


def gaps() -> tuple[str, ...]:
    """Codes of all kinds that may hide something, which a policy may accept."""
    return tuple(filter(may_hide, KINDS))
