"""Records of one kernel from several inputs become one kernel: what the linker made of its registers, what a dump says
of its code, what compilers wrote beside their output. Pure: records in, records and issues out.

Nothing is overwritten: where two disagree, both stay and an issue names both places.
"""

from __future__ import annotations

from spillscan.reading.join.code import attach_code
from spillscan.reading.join.links import merge_links
from spillscan.reading.join.sidecars import attach_sidecars
from spillscan.reading.join.times import timed

__all__ = ("attach_code", "attach_sidecars", "merge_links", "timed")
