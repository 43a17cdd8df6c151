"""Write how kernels were launched, as Nsight Compute saw it, in the form of a policy file: real block sizes and dynamic
shared memory, so that occupancy is judged at the launch and not at the best one."""

from __future__ import annotations

import argparse

from spillscan.commands import _common, profile
from spillscan.output.terminal import say

NAME = "launches"
HELP = "make a launch map for the policy of what Nsight Compute saw"
ORDER = 47
EPILOG = (
    "Example: spillscan launches app.csv build.log > launches.yaml; spillscan limiters build.log --config launches.yaml"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    profile.add_profile(parser)
    _common.add_selection(parser)
    parser.add_argument(
        "--use",
        choices=("commonest", "lowest-occupancy"),
        default="commonest",
        help="which launch counts of a kernel that was launched in several ways; the others are listed as comments"
        " (default: commonest)",
    )


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where no kernel's launch is known, or the inputs cannot be read."""
    from spillscan.errors import InputError
    from spillscan.profile.judged import issues
    from spillscan.profile.launchmap import launch_list, lines

    complaints, judged, build = profile.read(arguments)
    chosen = profile.select(judged, arguments.arch, arguments.kernel)
    found = launch_list(chosen, arguments.use, build is not None)
    if not found.entries:
        kernel, why = found.left_out[0]
        raise InputError(f"no launch is known: {kernel}: {why}", "profile with --section LaunchStats, in base units")
    say(lines(found))
    _common.report_issues([*complaints, *issues(chosen, build is not None)])
    return 0
