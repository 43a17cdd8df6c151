"""Arguments and exit codes, nothing else: 0 clean, 1 findings, 2 nothing can be said. Commands are in ``commands/``."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from spillscan import commands
from spillscan.output.errors import SpillscanError
from spillscan.output.terminal import complain, for_people


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; errors become one line on standard error.

    :class:`BrokenPipeError` where whoever reads the output left.
    """
    words = sys.argv[1:] if argv is None else argv
    for_people(sys.stdout)
    if not words:
        commands.build_parser("").print_help(sys.stderr)
        return 2
    gc.disable()  # one command, records without cycles: collecting would only walk them again and again
    try:
        arguments = commands.build_parser(words[0]).parse_args(words)
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except SpillscanError as error:
        complain(str(error))
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:
        # A full disk behind standard output, most of all: what opens files by name names them itself.
        complain(f"{error.filename or 'standard output'}: {error.strerror or error}")
        return 2
    except KeyboardInterrupt:
        complain("interrupted")
        return 2
    except Exception as error:
        if os.environ.get("SPILLSCAN_DEBUG"):
            import traceback

            traceback.print_exc()
        hint = "please report it with the command and its input; SPILLSCAN_DEBUG=1 shows the traceback"
        complain(f"unexpected error: {type(error).__name__}: {str(error)[:_LONGEST_REASON]}; {hint}")
        return 2
    return status


_LIBRARIES = {
    "OPENBLAS_NUM_THREADS": "1",  # NumPy's BLAS, which nothing here calls, starts a thread for each processor
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # its own keeps what was read: a seventh more at the end
}
_LONGEST_REASON = 300
"""Characters of what an unexpected error says."""


def entry() -> NoReturn:
    """The installed command: :func:`main`, then leave at once. Freeing a million records one by one takes time, too."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (`>&-`): nothing reads it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - to the end
    for name, value in _LIBRARIES.items():
        if name not in os.environ:  # for this process only: what it starts for the user is given os.environ
            os.putenv(name, value)
    try:
        try:
            status = main()
        except SystemExit as ended:  # argparse: --help, --version, a wrong call
            status = ended.code if isinstance(ended.code, int) else 0
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        _end_by_sigpipe()
    os._exit(status)


def _end_by_sigpipe() -> NoReturn:
    """End as Unix tools do where the reader of the output left (`| head`): a shell says 141."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(141)
