"""Copy a build's output without the compiler's figures: warnings, errors and everything else are shown as they come.
With -o the whole output is kept for `spillscan scan`.
"""

from __future__ import annotations

import argparse
import os
import sys

from spillscan.builds.launcher import copy
from spillscan.output.errors import UsageError

EPILOG = "Example: set -o pipefail; make 2>&1 | spillscan run filter -o build.log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-o", "--output", metavar="FILE", help="keep everything, figures included, in FILE")


def run(arguments: argparse.Namespace) -> int:
    """0 at the end of the input."""

    def keep(data: bytes) -> None:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[log.write(rest) :]
        except OSError as error:
            raise UsageError(f"cannot write {arguments.output}: {error.strerror}") from error

    try:
        log = open(arguments.output or os.devnull, "wb", buffering=0)  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"cannot write {arguments.output}: {error.strerror}") from error
    with log:
        copy(sys.stdin.fileno(), sys.stdout.fileno(), [keep])
    return 0
