"""The policy that holds for a command: its options, and the file and environment behind them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from spillscan.judging.policy.keys import SETTINGS, Key, keys
from spillscan.output.errors import UsageError

if TYPE_CHECKING:
    from spillscan.judging.policy import Policy
    from spillscan.model import Build, Issue
    from spillscan.model.usage import Severity


class HelpAll(argparse.Action):
    """The help with the options that few need."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it, and exit."""
        show_rare(parser)
        parser.print_help()
        parser.exit()


def show_rare(parser: argparse.ArgumentParser) -> None:
    """Have the parser show what its help leaves out."""
    for action in parser._actions:
        action.help = getattr(action, "rare", action.help)


def add_file(parser: argparse.ArgumentParser) -> None:
    """--config and --no-config."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--config",
        metavar="FILE",
        help="policy file, over which options win (default: spillscan.yaml or pyproject.toml, here or above)",
    )
    group.add_argument("--no-config", action="store_true", help="read no policy file")
    bounds = parser.add_argument_group("bounds on hostile binaries and archives")
    for key in SETTINGS.values():
        if key.unpacking:
            text = f"{key.help} (default: {key.default})"
            bounds.add_argument(key.option, type=_word(key), metavar="N", help=argparse.SUPPRESS).rare = text  # type: ignore[attr-defined]
    parser.add_argument("--help-all", action=HelpAll, nargs=0, help="show this and the rarer options, and exit")


def add_limits(parser: argparse.ArgumentParser, *scopes: Literal["build", "change"]) -> None:
    """Limits that hold for every kernel, and --severity."""
    for key in keys().values():
        if key.scope in (*scopes, "both"):
            if key.choices:  # options of commands have their own names: one says it of some kernels, in a file
                continue
            default = "no limit" if key.default is None else key.default
            parser.add_argument(
                key.option, type=_word(key), metavar="N", help=f"{key.help}, or none (default: {default})"
            )
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
        metavar="HOLE[=GLOB]",
        help="pass although something of this kind may be hidden, for kernels or inputs that GLOB names; repeatable",
    )


def add_archs(parser: argparse.ArgumentParser) -> None:
    """--require-archs and --driver-release."""
    for name, metavar in (("require_archs", "ARCH,…"), ("driver_release", "RELEASE")):
        key = SETTINGS[name]
        parser.add_argument(key.option, type=_word(key), metavar=metavar, help=f"{key.help}; else exit 2")


def add_budget(parser: argparse.ArgumentParser) -> None:
    """--max-file-bytes."""
    key = SETTINGS["max_file_bytes"]
    parser.add_argument(key.option, type=_word(key), metavar="N", help=f"{key.help}, or none; else exit 1")


def add_fail_on(parser: argparse.ArgumentParser) -> None:
    """--fail-on."""
    key = SETTINGS["fail_on"]
    parser.add_argument(key.option, choices=key.choices, help=f"{key.help} (default: {key.default})")


def policy_of(arguments: argparse.Namespace) -> Policy:
    """What holds: defaults < file < environment < the options among ``arguments``."""
    from spillscan.judging.policy.reading import from_options, load

    given = {name: getattr(arguments, name, None) for name in keys()}
    texts = {name: str(value) for name, value in given.items() if value is not None}
    severities, launches = getattr(arguments, "severity", None), getattr(arguments, "launch", None)
    accepted = getattr(arguments, "accept", None)
    options = from_options(texts, severities or (), launches or (), accepted or ())
    variables: Mapping[str, str] = os.environ
    return load(options, config=arguments.config, search=not arguments.no_config, variables=variables)


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
    from spillscan.output.nouns import count

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
            f"{launch.value.threads_per_block} threads per block are said of {' or '.join(map(repr, entry.match))}; the"
            f" code of {count(len(kernels), 'kernel')} says {', '.join(map(str, sorted(sizes)))}, which counts"
        )
        notes.append(placed(launch.origin, "launch-overruled", "warning", message))
    return replace(build, issues=(*build.issues, *notes)) if notes else build


def _word(key: Key) -> Callable[[str], str]:
    """Checks what is given for ``key``, and keeps it as it is written."""

    def check(text: str) -> str:
        from spillscan.judging.policy.reading import value

        try:
            value(key, text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(error.what) from None
        return text

    return check
