"""Print the policy in force: what spillscan.yaml, the environment and the options make together.

What is printed is itself a policy file. With --kernel, only what holds for one kernel.
"""

from __future__ import annotations

import argparse
import os

from spillscan.commands import _options, _policy
from spillscan.judging.policy.listing import listed, listed_for
from spillscan.judging.rules import all_rules
from spillscan.model import Kernel, KernelKey, Usage
from spillscan.output.folders import shipped
from spillscan.output.terminal import say

EPILOG = "Example: spillscan config --with origins"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_with(
        parser, {"origins": "where each value comes from: file and line, environment variable, option, or default"}
    )
    parser.add_argument("--kernel", metavar="SYMBOL", help="only what holds for this kernel")
    parser.add_argument("--arch", metavar="ARCH", help="of that kernel: its arch (sm_90a)")
    parser.add_argument("--unit", metavar="UNIT", help="of that kernel: its translation unit")
    about = "print the folder of the CMake package instead, for -Dspillscan_DIR="
    _options.flag(parser, "--cmake-dir", about)
    _policy.add_fail_on(parser)
    _policy.add_severity(parser)
    _options.add_launches(parser)
    _options.add_strict(parser)
    _policy.add_file(parser)


def run(arguments: argparse.Namespace) -> int:
    """0; an error in the policy is exit 2."""
    if arguments.cmake_dir:
        say([shipped(os.path.join("builds", "cmake"))])
        return 0
    policy = _policy.policy_of(arguments)
    rules, origins = list(all_rules().values()), "origins" in arguments.also
    if arguments.kernel:
        key = KernelKey(symbol=arguments.kernel, arch=arguments.arch, unit=arguments.unit or "")
        lines = listed_for(policy, Kernel(key=key, role="entry", usage=Usage()), rules, origins=origins)
    else:
        lines = listed(policy, rules, origins=origins)
    say(lines)
    return 0
