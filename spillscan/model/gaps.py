"""Everything that may be wrong with an input, each kind declared once, with what it may hide.

An issue whose kind hides something that a gate judges is a *gap*: the gate cannot pass, unless the policy accepts it
on record. ``docs/explain/gaps.md`` says what each means and what to do; ``explain`` and error messages quote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from spillscan.model.usage import Origin, Severity

Hidden = Literal["kernels", "spills", "registers", "stack", "shared", "code", "launch", "messages", "time"]
"""What may be missing where an input was not understood; ``kernels``: whole kernels, with all their figures;
``messages``: what the compiler says of a kernel besides; ``time``: what it took to compile."""

EVERYTHING: tuple[Hidden, ...] = (
    "kernels",
    "spills",
    "registers",
    "stack",
    "shared",
    "code",
    "launch",
    "messages",
    "time",
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
    "unknown-time": ("time",),
    "fewer-kernels": ("kernels",),
    "not-comparable": ("spills", "registers", "stack", "shared", "code", "launch"),
    "unit-missing": ("kernels",),
    "arch-missing": ("kernels",),
    "arch-required": ("kernels",),
    "ptx-too-new": ("kernels",),
    "arch-unasked": (),
    "no-fallback": (),
    "kernels-missing": ("kernels",),
    "nothing-compared": ("kernels",),
    "profile-unmatched": (),
    "profile-contradicts": (),
    "profiler-error": (),
}
"""What each kind of issue may hide from a gate, by code, unless an issue says otherwise; ``()``: nothing."""


class Issue(Struct, frozen=True, kw_only=True, gc=False):
    """Something in the input that was not understood, is contradictory, or cannot be decided."""

    code: str
    """Its kind, as :data:`spillscan.model.gaps.KINDS` declares it: ``unknown-line``, ``truncated`` …"""
    message: str
    """One line: what, and what to do where something can be done."""
    severity: Severity = "warning"
    """``error`` where figures are missing because of it, ``warning`` where they might be, ``note`` otherwise."""
    origin: Origin | None = None
    """Where it was seen."""
    hides: tuple[Hidden, ...] | None = None
    """What it may hide; ``None``: what its kind says."""
    symbol: str = ""
    """The kernel that it is about, as the tool printed it; empty: the whole input."""

    @property
    def hidden(self) -> tuple[Hidden, ...]:
        """What it may hide from a gate; empty: nothing. An error of a kind that another release made may hide all."""
        if self.hides is not None:
            return self.hides
        return KINDS.get(self.code, EVERYTHING if self.severity == "error" else ())


def gaps() -> tuple[str, ...]:
    """The codes of all kinds that hide something: those that a policy may accept."""
    return tuple(code for code, hides in KINDS.items() if hides)
