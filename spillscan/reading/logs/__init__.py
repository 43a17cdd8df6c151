"""Build logs: output of ptxas, nvlink and the libraries that contain them, embedded in a compiler's or CI's output.

``clean`` removes, once and first, everything that terminals and CI services add: colours, links, timestamps, carriage
returns. All other modules see clean lines; at the end, ``clean`` maps them back to lines of the file.

ptxas writes ``Compiling entry function`` (names kernel and arch), ``Function properties`` with its stack line (one
write, names the function), then ``Used N registers`` and ``Compile time``, which name nothing. A line is made clean
(``clean``), taken with its neighbours (``blocks``) or alone (``parsing``) as a message, and fed to its ``writer``. Its
``kernels`` wait for their registers lines, and ``finish`` settles them at the end. If one kernel is open, the registers
line belongs to it. If several are open, the lines are kept until there are as many as waiting kernels: each kernel may
own any line after its stack line whose fields fit. Values on which all possible owners agree are certain. All others
are unknown and the kernel is ambiguous. All other lines may announce ``steps`` or report ``failures``.

A log is considered interleaved if a kernel begins while another is open, the arch changes without a new module line, or
a compile time is separated from its registers line. Then compile times are dropped, and device functions of logs with
several archs are ambiguous, because none of their lines names the arch.

An object (``unit``) is taken from a step line if the build system writes each step's output whole (ninja, Bazel), or if
no second compilation was announced before the first one's output. Under ``make -j`` it stays empty.

Registers of ``-rdc`` code are final only after the link. A kernel is ``final: false`` if its command line implies it,
or if its module prints device functions before any kernel or with their own compile times, which whole programs never
do. ``reading/join`` replaces these values with nvlink's.
"""

from __future__ import annotations

from spillscan.reading.logs.log import read, silent

__all__ = ["read", "silent"]
