"""The user's own program at each cap of a sweep: options, and what came of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillscan.commands import _common

if TYPE_CHECKING:
    from spillscan.sweep.model import Curve
    from spillscan.sweep.settings import Setting
    from spillscan.sweep.timing import Value
    from spillscan.sweep.watch import Watch

RUNS, WARMUPS, TIMEOUT_SECONDS = 5, 1, 600


@dataclass(frozen=True, slots=True)
class Runs:
    """What is to be run."""

    template: str
    """The command, with ``{cap}``."""
    caps: tuple[int, ...]
    """Its values."""
    measure: str | None
    """Regular expression of the figure that the program prints; ``None``: the wall clock."""
    runs: int
    """Rounds that count."""
    warmups: int
    """Rounds before them."""
    timeout_seconds: int
    """For each run."""


def add_runs(parser: argparse.ArgumentParser) -> None:
    """--run and what goes with it."""
    timed = parser.add_argument_group("times (on a machine with a GPU)")
    timed.add_argument(
        "--run",
        dest="timed",
        metavar="COMMAND",
        help="run your own program at each cap, and show its times beside the figures: './gemm-{cap} 4096'; no shell",
    )
    timed.add_argument(
        "--measure",
        metavar="REGEX",
        help="the time is what its first group finds last in what the program prints, such as 'ms: ([0-9.]+)'; default:"
        " the wall clock",
    )
    timed.add_argument(
        "--runs", type=_common.positive_number, metavar="N", help=f"runs at each cap that count (default: {RUNS})"
    )
    timed.add_argument(
        "--warmups", type=_common.whole_number, metavar="N", help=f"runs before them (default: {WARMUPS})"
    )
    timed.add_argument(
        "--run-timeout",
        type=_common.positive_number,
        metavar="SECONDS",
        help=f"for each run (default: {TIMEOUT_SECONDS})",
    )


def runs_of(arguments: argparse.Namespace, settings: Sequence[Setting]) -> Runs | None:
    """What is to be run, refused before anything is compiled where it makes no sense; ``None`` without --run."""
    from spillscan.errors import UsageError
    from spillscan.sweep import timing

    if arguments.timed is None:
        for option in ("measure", "runs", "warmups", "run_timeout"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"--{option.replace('_', '-')} goes with --run", "give --run 'COMMAND {cap}'")
        return None
    caps = tuple(setting.registers for setting in settings if setting.kind == "cap" and setting.registers is not None)
    if not caps:
        raise UsageError("--run has no cap to run at", "give --caps 32,64,128")
    timing.words_of(arguments.timed, {"cap": caps[0]}, "cap")
    timing.pattern_of(arguments.measure)
    return Runs(
        template=arguments.timed,
        caps=caps,
        measure=arguments.measure,
        runs=arguments.runs or RUNS,
        warmups=WARMUPS if arguments.warmups is None else arguments.warmups,
        timeout_seconds=arguments.run_timeout or TIMEOUT_SECONDS,
    )


def timed(curves: Sequence[Curve], wanted: Runs, watch: Watch) -> tuple[list[Curve], str]:
    """(``curves`` with what was measured, why that is not all or nothing of it is of use; empty where all is well)."""
    from spillscan.sweep import measured, timing

    total = len(wanted.caps) * (wanted.runs + wanted.warmups)
    begun = 0

    def tell(cap: Value) -> None:
        nonlocal begun
        watch.tell(begun, total, f"cap {cap}", doing="running")
        begun += 1

    try:
        found = timing.time_runs(
            wanted.template,
            wanted.caps,
            wanted.runs,
            wanted.warmups,
            wanted.timeout_seconds,
            measure=wanted.measure,
            watch=tell,
        )
    finally:
        watch.erase()
    ended = ""
    if any(each.failure == timing.INTERRUPTED for each in found):
        ended = "interrupted: the times are those of the runs until then"
    elif not any(each.figures for each in found):
        ended = "no run went well; the points say why"
    return measured.with_times(curves, found), ended
