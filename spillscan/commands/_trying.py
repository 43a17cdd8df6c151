"""--try: the fixes of kernels, compiled."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillscan.commands import _options
from spillscan.model import Kernel
from spillscan.occupancy.launches import Launches
from spillscan.output import folders
from spillscan.output.progress import Progress
from spillscan.reading import workers

if TYPE_CHECKING:
    from spillscan.advice.sweep.trials import Trial

_TIMEOUT_SECONDS = 600
"""Of each compiler that --try starts."""


def add_try(parser: argparse.ArgumentParser, shown: str) -> None:
    """--try; ``shown``: what it is for."""
    _options.flag(
        parser,
        "--try",
        f"compile the fixes of the {shown} shown, where a source or PTX, its command and a ptxas are at hand",
    )


def trials_of(arguments: argparse.Namespace, wanted: Sequence[tuple[Kernel, str]], launches: Launches) -> list[Trial]:
    """What came of each kernel; none where that was not asked for. With a kernel what a sweep would be given."""
    if not vars(arguments)["try"]:
        return []
    from spillscan.advice.sweep import trials
    from spillscan.advice.sweep.compilers import Compilers
    from spillscan.advice.sweep.front_end import Cache
    from spillscan.advice.sweep.toolkits import Processes

    cache = Cache(Path(folders.kept("sweep")))
    compilers = Compilers(Processes(_TIMEOUT_SECONDS), cache, workers.processors(), Progress("compiling", "points"))
    return trials.tried(wanted, compilers, launches)


def trial_data(trial: Trial | None, untried: str) -> dict[str, Any] | None:
    """The same for programs; ``None`` where it could be tried, and that was not asked for."""
    if trial is None and not untried:
        return None
    from spillscan.advice.sweep.kept import point_data

    curve = None if trial is None else trial.curve
    return {
        "missing": untried or None,
        "for": None if curve is None or trial is None else trial.direction,
        "toolkit": None if curve is None else curve.toolkit,
        "points": [] if curve is None else [point_data(each) for each in curve.points],
        "ends_spills": None if trial is None or trial.ends is None else trial.ends.setting.source,
    }
