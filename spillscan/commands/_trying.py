"""--try: compile the fixes of kernels."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from spillscan.commands import _options
from spillscan.judging.policy.effective import Policy
from spillscan.model import Build, Kernel
from spillscan.occupancy.launches import Launches
from spillscan.reading import workers

if TYPE_CHECKING:
    from spillscan.advice.sweep.trials import Trial


def add_try(parser: argparse.ArgumentParser, shown: str) -> None:
    """Add --try to a command that shows ``shown``."""
    _options.flag(
        parser,
        "--try",
        f"test suggested fixes of the listed {shown} by compiling them; needs PTX and ptxas, or CUDA source and nvcc",
    )


_Sources = Sequence[tuple[Kernel, str]]
"""Kernels, each with what `sweep` would compile."""


def trials_of(
    arguments: argparse.Namespace, wanted: _Sources, launches: Launches, policy: Policy, build: Build
) -> dict[int, Trial]:
    """Trial of each wanted kernel of a build by the kernel's id, if --try was given."""
    if not vars(arguments)["try"]:
        return {}
    from spillscan.advice.sweep.compiling import Workshop
    from spillscan.advice.sweep.trials import tried

    with Workshop() as workshop, ThreadPoolExecutor(workers.processors()) as pool:
        made = pool.map(lambda each: tried(each[0], each[1], launches, workshop, policy, build.kernels), wanted)
        return {id(kernel): trial for (kernel, _), trial in zip(wanted, made, strict=True)}


def trial_data(trial: Trial | None, untried: str) -> dict[str, Any] | None:
    """A trial as JSON data; ``None`` if it was not requested, and there is no reason against it."""
    if trial is None and not untried:
        return None
    from spillscan.reports.sweep import point_data

    points = trial.points if trial is not None else ()
    return {
        "missing": untried or None,
        "for": trial.direction if trial is not None and points else None,
        "toolkit": trial.toolkit if trial is not None and points else None,
        "points": [point_data(each) for each in points],
        "shared": None if trial is None or trial.shared is None else point_data(trial.shared),
        "ends_spills": None if trial is None or trial.ends is None else trial.ends.setting.source,
    }
