"""A baseline as text: the preamble as it was, then one line a kernel and arch, sorted.

Lines are unique and say nothing of each other (no counts, no dates), so that git merges what two branches add or remove
at different places, and calls it a conflict where both change one line.
"""

from __future__ import annotations

import json
import re

from spillscan.baseline.keys import key_of
from spillscan.baseline.model import Baseline, Copies, Entry, Figures

PREAMBLE = """\
# Findings that are accepted as they are; `spillscan check --baseline` fails on what is new or worse.
# Yours, and kept as it stands: everything above "kernels:". Below it `spillscan baseline write` and `prune` write,
# one line a kernel and arch. An entry without figures is a kernel that is known and had no finding.
version: 1

# - kernel: "gemm*"      # glob on symbol, full or short name
#   rule: spill
#   arch: sm_80          # left out: every arch
#   reason: why it may stay
#   until: 2030-01-31    # the last day; then the check fails
suppressions: []

"""

_PLAIN_KEY = re.compile(r"_Z[\w.$]*(~[0-9a-f]{16})? [a-z]\w*(/function)?", re.ASCII)
_UNSAFE = re.compile(r"[^ -~\xa1-\u1fff\u2010-\u2027\u2030-\ud7ff]")


def text_of(baseline: Baseline) -> str:
    """The whole file. The same baseline is the same text, in whatever order its entries came."""
    lines = sorted((key_of(identity), entry) for identity, entry in baseline.entries.items())
    body = "".join(f"  {_key(key)}: {_entry(entry)}\n" for key, entry in lines)
    return f"{baseline.preamble}kernels:\n{body}" if body else f"{baseline.preamble}kernels: {{}}\n"


def figures_text(figures: Figures) -> str:
    """``{loads: 216, stores: 304}``."""
    return f"{{{', '.join(f'{name}: {value}' for name, value in figures)}}}"


def _entry(entry: Entry) -> str:
    rules = "".join(f", {rule}: {_copies(copies)}" for rule, copies in sorted(entry.recorded.items()))
    return f"{{name: {_quoted(entry.name)}{rules}}}"


def _copies(copies: Copies) -> str:
    texts = [figures_text(figures) for figures in copies]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _quoted(key)


def _quoted(text: str) -> str:
    """A double-quoted scalar of YAML."""
    return _UNSAFE.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
