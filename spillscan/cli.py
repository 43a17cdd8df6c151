"""Parse arguments and set the exit status: 0 clean, 1 findings, 2 undecided or error. Commands are in ``commands/``."""

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

    Raises :class:`BrokenPipeError` if the reader of the output has left.
    """
    words = sys.argv[1:] if argv is None else argv
    for_people(sys.stdout)
    if not words:
        commands.build_parser("").print_help(sys.stderr)
        return 2
    gc.disable()  # records have no cycles: collecting would only traverse them again and again
    try:
        if words[0] in commands.COMMANDS:
            _import_msgspec()
        arguments = commands.build_parser(words[0]).parse_args(words)
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except SpillscanError as error:
        complain(str(error))
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:
        # Mostly a full disk behind standard output: code that opens files by name names them itself.
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


def _import_msgspec() -> None:
    """Import msgspec without ``typing_extensions``, which it can do without: a tenth of the time of a small log."""
    if "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment] # an import of it fails
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


_LIBRARIES = {
    "OPENBLAS_NUM_THREADS": "1",  # NumPy's BLAS, never called here, starts a thread per processor
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # Arrow's own pool keeps freed memory: 1/7 more at the end
}
_LONGEST_REASON = 300
"""Maximum characters of an unexpected error's message."""


def entry() -> NoReturn:
    """Entry point of the installed command: :func:`main`, then exit at once without freeing a million records one by
    one."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (`>&-`): nothing reads it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - to the end
    for name, value in _LIBRARIES.items():
        if name not in os.environ:  # for this process only: programs that it starts for the user get os.environ
            os.putenv(name, value)
    status = 2
    try:
        try:
            status = main()
        except SystemExit as ended:  # argparse: --help, --version, a usage error
            status = ended.code if isinstance(ended.code, int) else 0
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        _end_by_sigpipe()
    except OSError as error:  # a full disk, which a command has reported and --help has not
        if status != 2:
            complain(f"standard output: {error.strerror}")
        status = 2
    os._exit(status)


def _end_by_sigpipe() -> NoReturn:
    """End with SIGPIPE as Unix tools do if the reader of the output has left (`| head`); the shell's status is 141."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(141)
