"""The policy that holds for a command: its options, and the file and environment behind them."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from spillscan.commands import _options
from spillscan.judging.policy.keys import OPTIONS, SETTINGS, keys
from spillscan.output.nouns import count

if TYPE_CHECKING:
    from spillscan.judging.policy import Policy
    from spillscan.model import Build, Issue
    from spillscan.model.usage import Severity

NO_FILE = "none"
"""What --config says where no file is to be read."""


def add_file(parser: argparse.ArgumentParser) -> None:
    """--config and --set."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="policy file, over which options win (default: spillscan.yaml or pyproject.toml, here or above); none",
    )
    _options.add_set(
        parser,
        "a key of the policy, over its file: max_registers=128, max_spill_bytes=none; `spillscan config` lists all",
    )


def add_severity(parser: argparse.ArgumentParser) -> None:
    """--severity."""
    parser.add_argument(
        "--severity",
        action="append",
        metavar="RULE=LEVEL",
        help="take findings of RULE for error, warning or note, or turn it off; repeatable",
    )


def add_accept(parser: argparse.ArgumentParser) -> None:
    """--accept."""
    parser.add_argument(
        "--accept",
        action="append",
        metavar="GAP[=GLOB]",
        help="pass although something of this kind may be hidden, for kernels or inputs that GLOB names; repeatable",
    )


def add_fail_on(parser: argparse.ArgumentParser) -> None:
    """--fail-on."""
    key = SETTINGS["fail_on"]
    parser.add_argument(key.option, choices=key.choices, help=f"{key.help} (default: {key.default})")


def policy_of(arguments: argparse.Namespace) -> Policy:
    """What holds: defaults < file < environment < the options among ``arguments``."""
    from spillscan.judging.policy.reading import from_options, load

    texts = _options.keyed(getattr(arguments, "settings", ()), keys())
    given = {name: getattr(arguments, name, None) for name in OPTIONS}
    texts |= {name: str(value) for name, value in given.items() if value is not None}
    severities, launches = getattr(arguments, "severity", None), getattr(arguments, "launch", None)
    accepted = getattr(arguments, "accept", None)
    options = from_options(texts, severities or (), launches or (), accepted or ())
    config = None if arguments.config == NO_FILE else arguments.config
    return load(options, config=config, search=arguments.config is None, variables=os.environ)


def unpacking(policy: Policy) -> dict[str, int]:
    """How much a binary or archive may make of itself, as fields of :class:`spillscan.reading.binary.window.Limits`."""
    return {
        "ratio": policy.count("max_unpack_ratio"),
        "member_bytes": policy.count("max_member_mib") << 20,
        "depth": policy.count("max_nesting"),
        "members": policy.count("max_members"),
    }


def with_rot(build: Build, policy: Policy) -> Build:
    """``build`` with a note for each pattern of the policy file that names none of its kernels, and a warning for each
    launch that is not what their code says.

    Lists of exceptions rot: what they name is renamed or changed, and it goes unseen that they are true no longer.
    """
    from msgspec.structs import replace

    from spillscan.model import Issue, Origin
    from spillscan.occupancy.launches import overruling

    notes: list[Issue] = []

    def placed(origin: str, code: str, severity: Severity, message: str) -> Issue:
        place, _, line = origin.rpartition(":")
        where = Origin(input=place, line=int(line), format="policy") if place else None
        return Issue(code=code, message=message + ("" if place else f" ({origin})"), severity=severity, origin=where)

    for entry, pattern in policy.unused(build.kernels):
        where = f" of {' or '.join(entry.arch)}" if entry.arch else ""
        where += f" in {' or '.join(entry.unit)}" if entry.unit else ""
        message = f"{pattern!r}{where} names no kernel of this build"
        notes.append(placed(entry.origin, "policy-names-nothing", "note", message))
    for entry, kernels in policy.overruled(build.kernels):
        launch = entry.launch
        assert launch is not None
        sizes = {code.threads_per_block for each in kernels if (code := overruling(each, launch.value))}
        message = (
            f"{launch.value.threads_per_block:,} threads per block are said of {' or '.join(map(repr, entry.match))};"
            f" the code of {count(len(kernels), 'kernel')} says {', '.join(map(str, sorted(sizes)))}, which counts"
        )
        notes.append(placed(launch.origin, "launch-overruled", "warning", message))
    return replace(build, issues=(*build.issues, *notes)) if notes else build
