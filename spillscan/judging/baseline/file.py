"""A baseline as text: what people write above ``kernels:`` as it stands there, then one line a kernel and arch, sorted.

Lines are unique and say nothing of each other (no counts, no dates), so that git merges what two branches add or remove
at different places, and calls it a conflict where both change one line. What is written here is read line by line, some
fifty times as fast as YAML. Where a single line below ``kernels:`` is not as it was written (edited, reformatted), all
of them are read as YAML; tests hold both ways equal. Every mistake is one line that says where.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import date
from functools import lru_cache

from spillscan.judging.baseline.model import (
    KEPT_FIGURES,
    KEPT_OF_LAUNCH,
    LARGEST_BLOCK,
    Baseline,
    Copies,
    Figures,
    Identity,
    KnownKernel,
    Suppression,
    key_of,
    parse_key,
)
from spillscan.model.nodes import Node, described, parse_yaml
from spillscan.model.patterns import compiled
from spillscan.output.errors import UsageError, nearest

VERSION = 1
"""Of the file's format, and of what :func:`spillscan.naming.identity.canonical` makes of symbols."""

RECORDS = 2
"""Of what is recorded: 1 of every kernel its figures, and its launch and unit where they are known; 2 the toolkits of
the build, likewise. A file without a version may lack them all."""

FIGURES, LAUNCH, UNIT = "figures", "launch", "unit"
"""What an entry holds besides its name and its rules."""

PREAMBLE = """\
# Kernels as they are accepted; `check --baseline` fails on what is new or worse.
# Yours, and kept as it stands: everything above "kernels:". Below it `baseline write` and `baseline prune` write,
# one line a kernel and arch: its figures, its launch where it is known, and the findings that are excused.
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
    body = "".join(f"  {_key(key)}: {_line(entry)}\n" for key, entry in lines)
    records = f"toolkits: [{', '.join(map(_quoted, baseline.toolkits))}]\n" if baseline.toolkits else ""
    records += f"records: {baseline.records}\n" if baseline.records else ""
    return f"{baseline.preamble}{records}kernels:{f'{chr(10)}{body}' if body else f' {{}}{chr(10)}'}"


def figures_text(figures: Figures) -> str:
    """``{loads: 216, stores: 304}``."""
    return f"{{{', '.join(f'{name}: {value}' for name, value in figures)}}}"


def _line(entry: KnownKernel) -> str:
    kept = {FIGURES: entry.figures, LAUNCH: (entry.launch,) if entry.launch else ()}
    parts = [*((name, copies) for name, copies in kept.items() if copies), *sorted(entry.recorded.items())]
    said = "".join(f", {name}: {_copies(copies)}" for name, copies in parts)
    unit = f", {UNIT}: {_quoted(entry.unit)}" if entry.unit else ""
    return f"{{name: {_quoted(entry.name)}{unit}{said}}}"


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


# ---- reading ------------------------------------------------------------------------------------------------------

_KERNELS = re.compile(r"^kernels:", re.MULTILINE)
_RELEASE = r'"[0-9.]+"'
_RECORDS = re.compile(
    rf"^(?:toolkits: \[({_RELEASE}(?:, {_RELEASE})*)\]\n)?records: (0|[1-9][0-9]{{0,8}})\n\Z", re.MULTILINE
)
_CONFLICT = re.compile(r"^(?:<{7}|\|{7}|={7}|>{7})(?: .*)?$", re.MULTILINE)

_STRING = r'"([ !#-\[\]-~\xa1-\u1fff\u2010-\u2027\u2030-\ud7ff]*)"'
_NUMBER = r"(?:0|[1-9][0-9]{0,17})"
_NAME = r"[a-z][a-z0-9_-]*"
_NAMED = re.compile(_NAME)
_WHOLE = re.compile(_NUMBER)
_FIGURES = rf"\{{{_NAME}: {_NUMBER}(?:, {_NAME}: {_NUMBER})*\}}"
_COPIES = rf"(?:{_FIGURES}|\[{_FIGURES}(?:, {_FIGURES})*\])"
_LINE = re.compile(
    rf"  (?:(_Z[A-Za-z0-9_.$]*(?:~[0-9a-f]{{16}})? [a-z][a-z0-9_]*(?:/function)?)|{_STRING}):"
    rf" \{{name: {_STRING}(?:, {UNIT}: {_STRING})?((?:, {_NAME}: {_COPIES})*)\}}\n"
)
_RULE = re.compile(rf", ({_NAME}): ({_COPIES})")
_BRACES = re.compile(r"\{([^}]*)\}")


def parse(text: str, label: str) -> Baseline:
    """The baseline that ``text`` holds; ``label`` is what the user calls the file. Raises :class:`UsageError`."""
    text = text.replace("\r\n", "\n")
    conflict = _CONFLICT.search(text)
    if conflict:
        raise UsageError(
            f"{label}:{text.count(chr(10), 0, conflict.start()) + 1}: a merge conflict is not resolved",
            "every line below `kernels:` is independent: keep the lines that you want of either side",
        )
    start = _KERNELS.search(text)
    if not start:
        raise UsageError(
            f"{label} is not a baseline: it has no `kernels:`", "`spillscan baseline write BUILD` makes one"
        )
    preamble, body = text[: start.start()], text[start.start() :]
    above = preamble.count("\n")
    written = _RECORDS.search(preamble)
    records = int(written[2]) if written else 0
    toolkits = tuple(re.findall(r"[0-9.]+", written[1] or "")) if written else ()
    if records > RECORDS:
        raise UsageError(
            f"{label}:{above}: it records what version {records} does; this spillscan knows version {RECORDS}",
            "check with the release that wrote it, or a later one",
        )
    if written:
        preamble = preamble[: written.start()]
    suppressions = _suppressions(parse_yaml(preamble, label))
    entries = entries_by_line(body)
    if entries is None:
        entries = entries_by_yaml(body, label, above + 1)
    return Baseline(entries=entries, suppressions=suppressions, preamble=preamble, records=records, toolkits=toolkits)


def entries_by_line(body: str) -> dict[Identity, KnownKernel] | None:
    """The entries where all of ``body`` is as it was written; else ``None``."""
    heading = "kernels:\n"
    if not body.startswith(heading) or body == heading:
        return None
    entries: dict[Identity, KnownKernel] = {}
    position = len(heading)
    while position < len(body):
        line = _LINE.match(body, position)
        identity = parse_key(line[1] or line[2] or "") if line else None
        if not line or not identity or identity in entries:
            return None
        recorded = _recorded(line[5])
        if recorded is None:
            return None
        entry = _entry(line[3], recorded, line[4] or "")
        if entry is None:
            return None
        entries[identity] = entry
        position = line.end()
    return entries


def _entry(name: str, said: Mapping[str, Copies], unit: str) -> KnownKernel | None:
    """The entry of which this is ``said``; ``None`` where its figures or its launch are none."""
    figures, launch = said.get(FIGURES, ()), said.get(LAUNCH, ((),))
    known = all(each in KEPT_FIGURES for copy in figures for each, _ in copy)
    threads = dict(launch[0]).get("threads_per_block", 0)
    if not known or len(launch) > 1 or (launch[0] and not 1 <= threads <= LARGEST_BLOCK):
        return None
    if any(each not in KEPT_OF_LAUNCH for each, _ in launch[0]):
        return None
    recorded = {rule: copies for rule, copies in said.items() if rule not in (FIGURES, LAUNCH)}
    return KnownKernel(name=name, recorded=recorded, figures=figures, launch=launch[0], unit=unit)


@lru_cache(maxsize=4096)
def _recorded(text: str) -> dict[str, Copies] | None:
    """What ``, spill: {loads: 216, stores: 304}`` says; ``None`` where something appears twice. Not to be changed."""
    recorded: dict[str, Copies] = {}
    for rule, copies in _RULE.findall(text):
        figures = tuple(_figures(braces) for braces in _BRACES.findall(copies))
        if rule in recorded or any(len(dict(each)) != len(each) for each in figures):
            return None
        recorded[rule] = figures
    return None if {"name", UNIT} & recorded.keys() else recorded


def _figures(text: str) -> Figures:
    pairs = (pair.split(": ") for pair in text.split(", "))
    return tuple(sorted((name, int(value)) for name, value in pairs))


def entries_by_yaml(body: str, label: str, first_line: int = 1) -> dict[Identity, KnownKernel]:
    """The entries of ``body``, which begins with ``kernels:`` at ``first_line`` of the file, whatever its style."""
    entries: dict[Identity, KnownKernel] = {}
    for name, kernels in _mapping(parse_yaml(body, label, first_line), "the baseline").items():
        if name != "kernels":
            raise kernels.error(f"{described(name)} is after `kernels:`", "move it above")
        for key, node in _mapping(kernels, "`kernels`").items():
            identity = parse_key(key)
            if identity is None:
                raise node.error(f"{described(key)} is not a kernel", "a key is a symbol and an arch")
            entries[identity] = _known_kernel(node)
    return entries


def _known_kernel(node: Node) -> KnownKernel:
    name = None
    unit = ""
    recorded: dict[str, Copies] = {}
    for key, value in _mapping(node, "an entry").items():
        if key == "name":
            name = _text(value, "`name`")
        elif key == UNIT:
            unit = _text(value, "`unit`")
        elif _NAMED.fullmatch(key):
            recorded[key] = _copies_of(value, key)
        else:
            raise value.error(f"{described(key)} is not a rule", "`spillscan explain` lists all")
    if name is None:
        raise node.error("an entry has no `name`", "give it one")
    entry = _entry(name, recorded, unit)
    if entry is None:
        kept = f"`{FIGURES}` has {', '.join(KEPT_FIGURES)}; `{LAUNCH}` has {' and '.join(KEPT_OF_LAUNCH)}"
        raise node.error("a figure or launch that no release writes", kept)
    return entry


def _copies_of(node: Node, rule: str) -> Copies:
    nodes = node.value if isinstance(node.value, list) else [node]
    copies = []
    for each in nodes:
        figures = _mapping(each, f"what is recorded of {described(rule)}")
        for name, value in figures.items():
            if not _NAMED.fullmatch(name):
                raise value.error(f"{described(name)} is not a figure", "remove it")
        copies.append(tuple(sorted((name, _whole_number(value, f"`{name}`")) for name, value in figures.items())))
    if not copies or not all(copies):
        raise node.error(f"{described(rule)} has no figures", "remove it, or the whole entry")
    return tuple(copies)


# ---- what people write --------------------------------------------------------------------------------------------

_FIELDS = ("kernel", "rule", "arch", "reason", "until")


def _suppressions(root: Node) -> tuple[Suppression, ...]:
    """The suppressions of what stands above ``kernels:``, which must name a version that is known."""
    table = _known(root, "the baseline", ("version", "suppressions", "toolkits", "records"))
    if "version" not in table:
        raise root.error("no `version`", f"write `version: {VERSION}`")
    version = _whole_number(table["version"], "`version`")
    if version != VERSION:
        raise table["version"].error(
            f"version {version}; this spillscan reads version {VERSION}", "write it again with this release"
        )
    listed = table.get("suppressions")
    if listed is None or listed.value is None:
        return ()
    if not isinstance(listed.value, list):
        raise listed.error(f"`suppressions` must be a list, not {described(listed.value)}")
    return tuple(map(_suppression, listed.value))


def _suppression(node: Node) -> Suppression:
    table = _known(node, "a suppression", _FIELDS)
    fields = {name: _text(value, f"`{name}`") for name, value in table.items()}
    missing = [name for name in _FIELDS if name not in fields and name != "arch"]
    if missing:
        raise node.error(f"a suppression without `{missing[0]}`", "it must say `kernel`, `rule`, `reason` and `until`")
    try:
        compiled(fields["kernel"])
    except UsageError as error:
        raise table["kernel"].error(error.what) from None
    try:
        until = date.fromisoformat(fields["until"])
    except ValueError:
        raise table["until"].error(
            f"`until` must be a day such as 2030-01-31, not {described(table['until'].value)}"
        ) from None
    return Suppression(
        kernel=fields["kernel"],
        rule=fields["rule"],
        arch=fields.get("arch"),
        reason=" ".join(fields["reason"].split()),
        until=until,
        line=int(node.place.rpartition(":")[2]),
    )


# ---- shapes -------------------------------------------------------------------------------------------------------


def _mapping(node: Node, what: str) -> Mapping[str, Node]:
    if not isinstance(node.value, Mapping):
        raise node.error(f"{what} must be a mapping, not {described(node.value)}")
    return node.value


def _known(node: Node, what: str, known: Collection[str]) -> Mapping[str, Node]:
    """A mapping that has no other keys than these."""
    table = _mapping(node, what)
    for name, value in table.items():
        if name not in known:
            raise value.error(f"unknown key {described(name)}", nearest(name, known))
    return table


def _text(node: Node, what: str) -> str:
    """A word, number or sentence as it is written; not empty."""
    if node.value is None or not node.written.strip():
        raise node.error(f"{what} must be text, not {described(node.value)}")
    return node.written


def _whole_number(node: Node, what: str) -> int:
    """A decimal number of 0 or more."""
    if not isinstance(node.value, int) or not _WHOLE.fullmatch(node.written):
        raise node.error(f"{what} must be a whole number of 0 or more, not {described(node.value)}")
    return int(node.written)
