"""Run a compiler and keep its figures in a record file beside the object that it makes; warnings and errors are shown,
and the exit status is the compiler's. A launcher for CMake (CMAKE_CUDA_COMPILER_LAUNCHER), PyTorch (PYTORCH_NVCC) and
make (NVCC=…). Incremental builds stay complete, parallel ones are never ambiguous; `spillscan scan BUILD_FOLDER` reads
the record files.
"""

from __future__ import annotations

import argparse

from spillscan.builds import launcher
from spillscan.output.errors import UsageError

EPILOG = 'Example: cmake -B build -DCMAKE_CUDA_COMPILER_LAUNCHER="spillscan;wrap;-v;--" && cmake --build build'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    about = "add the compiler's option that reports registers and spills (nvcc: -Xptxas -v)"
    parser.add_argument("-v", "--verbose", action="store_true", help=about)
    parser.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)  # what `spillscan run` puts in place
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND …", help="the compiler's command line")


def run(arguments: argparse.Namespace) -> int:
    """The compiler's exit status; 127 where there is no such command."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UsageError("no command to run", "write spillscan wrap -- nvcc …")
    return launcher.run(command, verbose=arguments.verbose, watched=arguments.watched)
