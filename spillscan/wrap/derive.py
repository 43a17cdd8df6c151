"""Derives ``figures.regex`` from the grammars: ``python -m spillscan.wrap.derive`` writes it, a test holds it true."""

from __future__ import annotations

import re
from pathlib import Path

from spillscan import grammar

TARGET = Path(__file__).with_name("figures.regex")


def expression() -> bytes:
    """A regular expression for one whole line of figures of ptxas or nvlink, after any prefix that CI services add."""
    prefix, ptxas, nvlink = (
        re.sub(rb"\(\?P<\w+>", b"(?:", grammar.pattern(name, rule).pattern)
        for name, rule in (("prefix", "prefix"), ("ptxas", "figures_line"), ("nvlink", "figures_line"))
    )
    return rb"^%s(?:%s|%s)\r?\n" % (prefix, ptxas, nvlink)


if __name__ == "__main__":
    TARGET.write_bytes(expression())
