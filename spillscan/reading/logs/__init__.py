"""Build logs: what ptxas, nvlink and the libraries that hold them print, anywhere in a compiler's or CI's output.

``clean`` takes away what terminals and CI services put into the text, once, at the entrance: no other module knows of
colours, links, times before lines or carriage returns. Lines are clean ones until the end, when ``clean`` says where in
the file each stands.

ptxas writes ``Compiling entry function`` (names kernel and arch), ``Function properties`` with its stack line (one
write, names the function), then ``Used N registers`` and ``Compile time``, which name nothing. ``attribution`` follows
one writer; beside it stand ``pending`` kernels, ``suspicions``, ``notes``, ``link_lines``, what is ``gathered``, and
the ``interleaved`` groups that no line assigns. While only one kernel is open, the registers line is its own. When
several are, the lines are kept until as many have come as kernels wait: each kernel may have any line behind its
stack line whose fields fit (``interleaved``). What all of these agree on is certain, everything else is unknown and the
kernel ambiguous.

A log is taken for interleaved when a kernel begins while another is open, when the arch changes without a new module
line, or when a compile time stands away from its registers line. Then compile times are dropped, and device functions
of logs with several archs are ambiguous: their arch stands on no line of theirs.

An object (``unit``) is taken from a step line where the build system writes each step's output whole (ninja, Bazel), or
where no second compilation was announced before the first one's output. Under ``make -j`` it stays empty.

Registers of ``-rdc`` code are final only after the link. A kernel is ``final: false`` where its command line says so,
or where its module prints device functions before any kernel or with a compile time of their own, which whole programs
never do. ``reading/join`` puts nvlink's figures in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillscan.reading.inputs.source import DEFAULT, Options, Stream

if TYPE_CHECKING:
    from spillscan.model import Reading

FORMAT = "ptxas"


def sniff(head: bytes) -> bool:
    """Any text may hold compiler output."""
    return True


def silent(text: bytes) -> bool:
    """Whether ``text``, a whole log, holds no compiler output."""
    from spillscan.reading.logs import log

    return log.silent(text)


def read(stream: Stream, name: str, _: Options = DEFAULT) -> Reading:
    """Every kernel, link record and issue of one log."""
    from spillscan.reading.logs import log

    return log.read(stream, name)
