"""``build.ninja``: which edges compile CUDA sources, and which of them a build without a target runs.

Only what says so is read: ``build``, ``default``, ``include``, ``subninja`` and the variables of the file itself
(https://ninja-build.org/manual.html#ref_ninja_file).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from msgspec import Struct, field

from spillscan.builds.compilation import HOST_SOURCES, SOURCES

_LARGEST_BYTES = 1 << 28
_MOST_FILES = 1000
_CONTINUED = re.compile(r"\$\r?\n[ \t]*")
_TOKEN = re.compile(r"(?:\$[ :$|]|[^\s:|])+|:|\|\|?@?")
_VARIABLE = re.compile(r"\$(?:\{([\w.-]+)\}|([\w-]+)|([ :$|]))")
_DEVICE = tuple(suffix for suffix in SOURCES if suffix not in (*HOST_SOURCES, ".cubin"))


class Edge(Struct, frozen=True):
    """One ``build`` statement; paths as ninja takes them, from the folder of the first file."""

    outputs: tuple[str, ...]
    rule: str
    inputs: tuple[str, ...]
    """Explicit, implicit and order-only."""


class _Manifest(Struct):
    edges: list[Edge] = field(default_factory=list)
    defaults: list[str] = field(default_factory=list)
    files: int = 0


def compilations(path: str) -> list[tuple[str, str]] | None:
    """(source, object) of each edge that compiles a CUDA source and that a build without a target runs, as seen from
    the folder of ``path``; ``None`` where the file cannot be read."""
    manifest = _Manifest()
    try:
        _read(path, os.path.dirname(path), manifest, {})
    except (OSError, UnicodeDecodeError):
        return None
    wanted = _needed(manifest)
    return [
        (source, edge.outputs[0])
        for edge in manifest.edges
        if edge.outputs and edge.rule != "phony" and not wanted.isdisjoint(edge.outputs)
        for source in edge.inputs[:1]
        if source.endswith(_DEVICE) and edge.outputs[0].endswith((".o", ".obj"))
    ]


def _needed(manifest: _Manifest) -> set[str]:
    """All that the default targets depend on; without any, all that there is."""
    by_output = {output: edge for edge in manifest.edges for output in edge.outputs}
    if not manifest.defaults:
        return set(by_output)
    found: set[str] = set()
    waiting = list(manifest.defaults)
    while waiting:
        output = waiting.pop()
        if output not in found:
            found.add(output)
            edge = by_output.get(output)
            waiting += () if edge is None else edge.inputs
    return found


def _read(path: str, top: str, manifest: _Manifest, variables: dict[str, str]) -> None:
    manifest.files += 1
    if os.path.getsize(path) > _LARGEST_BYTES or manifest.files > _MOST_FILES:
        raise OSError(f"{path} is too large")
    with open(path, encoding="utf-8") as file:
        text = _CONTINUED.sub("", file.read())
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "build":
            manifest.edges.append(_edge(rest, variables))
        elif word == "default":
            manifest.defaults += [token for token in _paths(rest, variables) if token != ":"]
        elif word in ("include", "subninja"):
            _read(os.path.join(top, _expanded(rest.strip(), variables)), top, manifest, variables)
        elif line[:1].strip() and not line.startswith("#") and "=" in line:
            name, _, value = line.partition("=")
            variables[name.strip()] = _expanded(value.strip(), variables)


def _edge(text: str, variables: dict[str, str]) -> Edge:
    outputs: list[str] = []
    inputs: list[str] = []
    rule = ""
    behind = False
    for token in _paths(text, variables):
        if token == ":":
            behind = True
        elif token.startswith("|"):
            continue
        elif not behind:
            outputs.append(token)
        elif not rule:
            rule = token
        else:
            inputs.append(token)
    return Edge(tuple(outputs), rule, tuple(inputs))


def _paths(text: str, variables: dict[str, str]) -> Iterator[str]:
    for token in _TOKEN.findall(text):
        yield token if token in (":", "|", "||", "|@") else os.path.normpath(_expanded(token, variables))


def _expanded(text: str, variables: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda m: m[3] or variables.get(m[1] or m[2], ""), text) if "$" in text else text
