"""Truth table: registers that the roles of a kernel's warps ask for, against what its block has."""

from __future__ import annotations

import pytest

from spillscan.judging.rules import Terms
from spillscan.judging.rules import registers as rules
from spillscan.model import LOST_SETTING, Advisory, Change, Kernel, KernelKey, Launch, LaunchBounds, Usage
from spillscan.model.code import SassStats, WarpRole
from spillscan.model.local import Traffic

Roles = tuple[int | None, ...]
IGNORED = Advisory(kind=LOST_SETTING, text="'setmaxnreg' ignored", severity="info")


def kernel(
    roles: Roles | None,
    own: int | None = 128,
    *,
    follows: bool = False,
    bounds: int | None = None,
    advisories: tuple[Advisory, ...] = (),
    opcodes: int | None = None,
) -> Kernel:
    """``roles``: what each asks for; ``None``: no code was read."""
    sass = None
    if roles is not None:
        start = WarpRole(address=None, registers=None, follows=False, spill=None, local=Traffic())
        asking = tuple(
            WarpRole(address=16 * at, registers=asked, follows=follows, spill=None, local=Traffic())
            for at, asked in enumerate(roles)
        )
        count = len(roles) if opcodes is None else opcodes
        settings = (("USETMAXREG", count),) if count else (("NOP", 9),)
        sass = SassStats(instructions=9, code_bytes=144, opcodes=settings, roles=(start, *asking))
    launch_bounds = None if bounds is None else LaunchBounds(max_threads=bounds)
    key = KernelKey(symbol="k", arch="sm_90a", unit="")
    return Kernel(
        key=key,
        role="entry",
        usage=Usage(registers=own),
        sass=sass,
        launch_bounds=launch_bounds,
        advisories=advisories,
    )


def at(threads: int | None) -> Terms:
    return Terms(launch=None if threads is None else Launch(threads_per_block=threads))


@pytest.mark.parametrize(
    ("roles", "own", "threads", "asked_and_held"),
    [
        ((40, 232), 128, 256, (272, 256)),
        ((24, 232), 128, 256, None),  # just all of them
        ((32, 232), 128, 256, (264, 256)),
        ((40, 232), 168, 384, None),  # 40 + 232 + 40 of the most modest: 312 of 504
        ((40, 232, 232), 168, 384, None),  # 504 of 504
        ((40, 232, 240), 168, 384, (512, 504)),
        ((40, 232, 240), 161, 384, (512, 504)),  # registers are handed out by eight
        ((40, 232, 240), 160, 384, (512, 480)),
        ((240,), 128, 384, (496, 384)),  # the others keep what they have: 240 + 128 + 128
        ((240,), 72, 128, (240, 72)),
        ((72,), 72, 128, None),
        ((40, 232), 128, 128, (232, 128)),  # more roles than warpgroups: one of them at a time
        ((40, 128), 128, 128, None),
        ((40, None), 128, 256, None),
        ((40, 232), None, 256, None),
        ((40, 232), 128, 255, None),
        ((40, 232), 128, None, None),
        ((), 128, 256, None),
    ],
)
def test_roles_fit_into_their_block(
    roles: Roles, own: int | None, threads: int | None, asked_and_held: tuple[int, int] | None
) -> None:
    violations = list(rules._waiting(kernel(roles, own), at(threads)))
    by_bounds = list(rules._waiting(kernel(roles, own, bounds=threads), at(None)))
    assert violations == by_bounds
    assert list(rules._waiting(kernel(roles, own, bounds=64), at(threads))) == violations or threads is None
    measure = rules._registers_missing(kernel(roles, own), at(threads))
    if asked_and_held is None or threads is None:
        assert violations == []
        assert measure == {"missing": 0}
    else:
        asked, held = asked_and_held
        ((message, _),) = violations
        assert f" of {threads // 128} warpgroup" in message
        assert f" add up to {asked}; their registers per thread at launch add up to {held}" in message
        assert measure == {"missing": asked - held}


def test_consecutive_roles_need_not_fit_together() -> None:
    assert list(rules._waiting(kernel((40, 232), follows=True), at(256))) == []


@pytest.mark.parametrize(
    ("before", "after", "severity", "text"),
    [
        ((40, 232), (40, 232), None, ""),
        ((40, 232), (232, 40), None, ""),
        ((40, 232), (40, 240), "warning", "sets different registers per warp role: setmaxnreg 40, 232 → 40, 240"),
        ((40, 232), (232,), None, "sets registers for fewer warp roles: setmaxnreg 40, 232 → 232"),
        ((40,), (40, 232), "warning", "sets different registers per warp role: setmaxnreg 40 → 40, 232"),
        ((40,), (), None, "no longer sets registers per warp role (setmaxnreg 40)"),
        ((40,), (None,), "warning", "sets different registers per warp role: setmaxnreg 40 → unknown"),
        ((40, None), (), None, "no longer sets registers per warp role (setmaxnreg 40, unknown)"),
        ((), (40,), None, ""),
        (None, (40,), None, ""),
        ((40,), None, None, ""),
    ],
)
def test_what_changed(before: Roles | None, after: Roles | None, severity: object, text: str) -> None:
    change = Change(before=kernel(before), after=kernel(after), state="changed")
    assert list(rules._roles_lost(change, at(None))) == ([(text, severity)] if text else [])


def test_roles_that_did_not_fit_before_are_no_regression() -> None:
    for before, found in (((24, 232), True), ((40, 240), False), (None, True)):
        change = Change(before=kernel(before), after=kernel((40, 232)), state="changed")
        assert any(rules._waiting_now(change, at(256))) == found


@pytest.mark.parametrize(
    ("before", "after", "undecided"),
    [
        (kernel((40,)), kernel(None), True),
        (kernel((40,)), kernel(None, advisories=(IGNORED,)), False),  # the log reports it
        (kernel((40,)), kernel(()), False),
        (kernel((), opcodes=0), kernel(None), False),
        (kernel(None), kernel(None), False),
        (kernel((40,)), None, False),
        (None, kernel(None), False),
    ],
)
def test_newer_code_that_was_not_read(before: Kernel | None, after: Kernel | None, undecided: bool) -> None:
    change = Change(before=before, after=after, state="changed")
    assert bool(rules._roles_lost_unknown(change, at(None))) == undecided
