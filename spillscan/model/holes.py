"""Everything that may be wrong with an input, each kind declared once, with what it may hide.

An issue whose kind hides something that a gate judges is a *hole*: the gate cannot pass, unless the policy accepts it
on record. ``docs/holes.md`` says what each means and what to do; ``explain`` and error messages quote it.
"""

from __future__ import annotations

from collections.abc import Mapping

from spillscan.model.usage import Hidden

EVERYTHING: tuple[Hidden, ...] = ("kernels", "spills", "registers", "stack", "shared", "code", "launch")

KINDS: Mapping[str, tuple[Hidden, ...]] = {
    "no-kernel": ("kernels",),
    "unreadable": ("kernels",),
    "nothing-recognised": ("kernels",),
    "left-over-record": (),
    "unfinished-record": ("kernels",),
    "changed-input": EVERYTHING,
    "interleaved": (),
    "build-failed": ("kernels",),
    "build-incomplete": ("kernels",),
    "step-retried": (),
    "host-step-failed": (),
    "truncated": EVERYTHING,
    "damaged-listing": EVERYTHING,
    "unknown-line": (),
    "unknown-clause": (),
    "unattributed-stack": ("spills", "stack"),
    "unattributed-registers": ("registers", "shared"),
    "unattached-advisory": (),
    "mixed-input": EVERYTHING,
    "unsupported-arch": EVERYTHING,
    "unknown-arch": ("spills", "code"),
    "unknown-opcode": (),
    "damaged": ("kernels",),
    "damaged-lines": (),
    "tool-message": (),
    "undecodable": (),
    "spill-mismatch": ("spills",),
    "registers-mismatch": ("registers",),
    "ambiguous-sass": ("code",),
    "not-in-dump": ("code",),
    "not-in-log": (),
    "policy-names-nothing": (),
    "expired-suppression": (),
    "idle-suppression": (),
    "unknown-spills": ("spills",),
    "unknown-registers": ("registers",),
    "unknown-stack": ("stack",),
    "unknown-shared": ("shared",),
    "unknown-blocks": ("launch",),
    "unknown-code": ("code",),
    "fewer-kernels": ("kernels",),
    "not-comparable": ("spills", "registers", "stack", "shared", "code", "launch"),
    "nothing-compared": ("kernels",),
    "profile-unmatched": (),
    "profile-contradicts": (),
    "profiler-error": (),
}
"""What each kind of issue may hide from a gate, by code, unless an issue says otherwise; ``()``: nothing."""
