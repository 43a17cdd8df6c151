"""Write how kernels are launched, as a profiler saw it, a table says or their compiler wrote, in the form of a policy
file: real block sizes and dynamic shared memory, so that occupancy is judged at the launch and not at the best one."""

from __future__ import annotations

import argparse
import os

from spillscan.advice.profile.exports import SQLITE
from spillscan.advice.profile.judged import issues
from spillscan.advice.profile.launchmap import known_launches, launch_list, lines
from spillscan.commands import _inputs, _issues, _options, profile
from spillscan.commands._selection import Selection
from spillscan.output.errors import InputError
from spillscan.output.terminal import say
from spillscan.reading.inputs.source import Source, kind_of_binary

EPILOG = (
    "Example: spillscan profile launches app.csv build.log > launches.yaml;"
    " spillscan occupancy build.log --config launches.yaml"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    profile.add_profile(parser)
    _options.add_selection(parser)


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where no kernel's launch is known, or the inputs cannot be read."""
    if _is_build(arguments.profile):
        compiled = Selection(arguments.arch, arguments.kernel).of(_inputs.scan([arguments.profile, *arguments.inputs]))
        said = known_launches(compiled.kernels)
        if not said.entries:
            raise InputError(f"no launch is known: {said.left_out[0][0]}: {said.left_out[0][1]}", "give a profile, too")
        say(lines(said))
        _issues.report_issues(compiled.issues)
        return 0
    complaints, judged, build = profile.read(arguments)
    chosen = profile.select(judged, arguments.arch, arguments.kernel)
    found = launch_list(chosen, build is not None)
    if not found.entries:
        kernel, why = found.left_out[0]
        raise InputError(f"no launch is known: {kernel}: {why}", "profile with --section LaunchStats, in base units")
    say(lines(found))
    _issues.report_issues([*complaints, *issues(chosen, build is not None)])
    return 0


def _is_build(path: str) -> bool:
    """Whether ``path`` is no profile but what was compiled: a cache folder, a binary."""
    if os.path.isdir(path):
        return any(name.endswith((".cubin", ".json")) for _, _, names in os.walk(path) for name in names)
    if not os.path.isfile(path):
        return False
    with Source(path).open() as stream:
        head = stream.head()
    return kind_of_binary(head) is not None and not head.startswith(SQLITE)
