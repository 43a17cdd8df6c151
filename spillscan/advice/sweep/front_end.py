"""nvcc's front end: from a CUDA source to PTX, as nvcc itself does it, and results that are kept by content.

nvcc gives its front end the register cap and the launch bounds, and the PTX depends on both (measured: 13.0, six of
seven sources). So each has PTX of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from spillscan.advice.sweep.command_line import TranslationUnit
from spillscan.advice.sweep.model import Setting
from spillscan.advice.sweep.toolkits import Ended, Processes, Toolkit

_MOST_BYTES = 1 << 30


def key(*parts: str | bytes) -> str:
    """A hash of all parts; no two lists of parts share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


class Cache:
    """A folder of results by content hash, no entry of it half-written; ``None`` keeps nothing. What cannot be read,
    or is damaged, is not there: it is made anew."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str) -> tuple[bytes, ...] | None:
        """The pieces kept under ``name``."""
        if self._folder is None:
            return None
        try:
            data = self._place(name).read_bytes()
        except OSError:
            return None
        packed = zlib.decompressobj()
        try:
            body = packed.decompress(data, _MOST_BYTES)
            return msgspec.msgpack.decode(body, type=tuple[bytes, ...]) if packed.eof else None  # the checksum is right
        except (zlib.error, msgspec.DecodeError):
            return None

    def put(self, name: str, *pieces: bytes) -> None:
        """Keep ``pieces``; a full or read-only disk keeps nothing, and no result is the worse for it."""
        if self._folder is None:
            return
        body = zlib.compress(msgspec.msgpack.encode(pieces), 1)
        place = self._place(name)
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=place.parent, prefix=".")
            try:
                with open(handle, "wb") as file:
                    file.write(body)
                os.replace(draft, place)
            except OSError:
                os.unlink(draft)
                raise

    def _place(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / name[:2] / name


_PTX, _PREPROCESSED = "kernel.ptx", ".cpp1.ii"
_SET_HERE = ("-arch=", "--gpu-name=", "-maxrregcount=", "--maxrregcount=")


class FailedError(Exception):
    """A compiler failed; the text is why, one line."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """PTX, and how to compile it."""

    text: str
    """The PTX."""
    options: tuple[str, ...] = ()
    """ptxas's options besides arch, cap and files."""


class FrontEnd:
    """nvcc on one unit for one arch."""

    def __init__(self, unit: TranslationUnit, toolkit: Toolkit, arch: str, processes: Processes, cache: Cache) -> None:
        assert toolkit.nvcc is not None
        self._unit, self._toolkit, self._arch = unit, toolkit, arch
        self._processes, self._cache = processes, cache
        self._nvcc = toolkit.nvcc

    def prepare(self) -> tuple[str, tuple[str, ...]]:
        """(hash of the preprocessed source, options for ptxas). Raises :class:`FailedError`."""
        preprocessed = self._run("-E", *self._for(self._unit.virtual(self._arch)))
        said = self._run("-cubin", "-o", "kernel.cubin", *self._for(self._arch), "--dryrun")
        options = ptxas_options(said.err.decode("utf-8", "surrogateescape"))
        if options is None:
            raise FailedError("nvcc --dryrun names no ptxas")
        return key(preprocessed.out), options

    def ptx(self, source: str, cap: int | None) -> str:
        """PTX at a cap, of the preprocessed source with that hash. Raises :class:`FailedError`."""
        words = self._words(cap)
        return self._kept(("ptx", source, words), lambda target: self._run("-ptx", "-o", target, *words))

    def bounded(self, source: str, cap: int | None, setting: Setting) -> str:
        """PTX of the source with a setting's bounds in it: what ``nvcc --dryrun`` would run, the bounds rewritten in
        what is preprocessed. Raises :class:`FailedError`."""
        words = self._words(cap)
        return self._kept(
            ("bounded", source, [*words, setting.label]), lambda target: self._rewritten(target, words, setting)
        )

    def _rewritten(self, target: str, words: Sequence[str], setting: Setting) -> None:
        keep = ("--keep", "--keep-dir", os.path.dirname(target))
        said = self._run("-ptx", "-o", target, *words, *keep, "--dryrun")
        variables, commands = dry_run(said.err.decode("utf-8", "surrogateescape"))
        for command in commands:
            if os.path.basename(command[0]) == "ptxas":
                break
            ended = self._processes.run(command, self._unit.folder or None, variables)
            if ended.status or ended.why:
                raise FailedError(reason(os.path.basename(command[0]), ended), ended.status)
            made = Path(command[-1])
            if made.name.endswith(_PREPROCESSED) and made.is_file():
                text = made.read_bytes().decode("utf-8", "surrogateescape")
                made.write_bytes(rewritten(text, setting).encode("utf-8", "surrogateescape"))

    def _words(self, cap: int | None) -> list[str]:
        return [*self._for(self._unit.virtual(self._arch)), *([] if cap is None else [f"-maxrregcount={cap}"])]

    def _kept(self, about: tuple[str, str, Sequence[str]], make: Callable[[str], object]) -> str:
        """PTX of a kind and source by these words: from the cache, else what ``make`` writes to a file."""
        kind, source, words = about
        name = key(kind, self._toolkit.banner, source, self._unit.file, *self._unit.options, *words)
        if kept := self._cache.get(name):
            return kept[0].decode("utf-8", "surrogateescape")
        with tempfile.TemporaryDirectory(prefix="spillscan-") as folder:
            target = Path(folder, _PTX)
            make(str(target))
            try:
                data = target.read_bytes()
            except OSError:
                raise FailedError("nvcc wrote no PTX") from None
        self._cache.put(name, data)
        return data.decode("utf-8", "surrogateescape")

    def _for(self, code: str) -> tuple[str, ...]:
        return ("-gencode", f"arch={self._unit.virtual(self._arch)},code={code}")

    def _run(self, *words: str) -> Ended:
        command = [self._nvcc, *self._unit.options, *words, self._unit.safe_path]
        ended = self._processes.run(command, self._unit.folder or None)
        if ended.status or ended.why:
            raise FailedError(reason("nvcc", ended), ended.status)
        return ended


def dry_run(said: str) -> tuple[dict[str, str], list[list[str]]]:
    """(variables, commands) that ``nvcc --dryrun`` prints; no shell reads them."""
    variables: dict[str, str] = {}
    found = []
    for line in said.splitlines():
        if not line.startswith("#$ "):
            continue
        name, equals, value = line[3:].partition("=")
        if equals and name.isidentifier():
            variables[name] = value
            continue
        with contextlib.suppress(ValueError):
            words = shlex.split(line[3:])
            found.append([re.sub(r"\$(\w+)", lambda match: variables.get(match[1], match[0]), each) for each in words])
    return variables, [words for words in found if words]


def ptxas_options(said: str) -> tuple[str, ...] | None:
    """ptxas's options from what ``nvcc --dryrun`` prints, without arch, cap and files; ``None`` where it runs none."""
    calls = [words for words in dry_run(said)[1] if os.path.basename(words[0]) in ("ptxas", "ptxas.exe")]
    if not calls:
        return None
    options: list[str] = []
    rest = iter(calls[-1][1:])
    for word in rest:
        if word == "-o":
            next(rest, None)
        elif not word.endswith(".ptx") and not word.startswith(_SET_HERE) and word not in ("-v", "-m64"):
            options.append(word)
    return tuple(options)


def reason(tool: str, ended: Ended) -> str:
    """Why a compiler failed: its first line that names an error, else its last, else its exit status."""
    if ended.why:
        return f"{tool}: {ended.why}"
    lines = [
        line.strip() for line in (ended.err + b"\n" + ended.out).decode(errors="replace").splitlines() if line.strip()
    ]
    errors = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
    said = errors[0] if errors else lines[-1] if lines else ""
    ending = f"ended by signal {-ended.status}" if ended.status < 0 else f"exit status {ended.status}"
    return said or f"{tool}: {ending}"


# Launch bounds of kernels in a preprocessed CUDA source, rewritten as text: nvcc's front end makes other PTX of a
# source with other bounds, so that bounds which are put into the PTX alone may do better, or worse, than in the source.
#
# In what nvcc preprocesses ``__global__`` is ``__attribute__((global))``, and ``__launch_bounds__(256, 4)`` is
# ``__attribute__((launch_bounds(256, 4)))`` (``crt/host_defines.h``, 11.8 to 13.5).

_KERNEL = "__attribute__((global))"
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\(\s*(launch_bounds|maxnreg|block_size|\w+)")
_BLANK = re.compile(r"(?:\s+|#[^\n]*\n)*")
_ROUND = re.compile(r"[()]")
_WORD = re.compile(r"[A-Za-z_]\w*")


def rewritten(text: str, setting: Setting) -> str:
    """The source with the setting's bounds in the place of every kernel's own; other settings change nothing."""
    if setting.kind not in ("bounds", "maxnreg"):
        return text
    pieces, at, place = [], 0, text.find(_KERNEL)
    while place >= 0:
        name = _name(text, place + len(_KERNEL))
        if name is not None:
            begin = max(at, *(text.rfind(sign, at, place) + 1 for sign in ";{}"))
            pieces += [text[at:begin], _head(text[begin:name], setting)]
            at = name
        place = text.find(_KERNEL, max(name or 0, place + 1))
    return "".join((*pieces, text[at:]))


def _name(text: str, at: int) -> int | None:
    """Where the name of a kernel begins that is declared or defined behind its attribute; ``None`` of an instance of a
    template, which has the template's bounds."""
    while True:
        blank = _BLANK.match(text, at)
        at = blank.end() if blank else at
        word = _WORD.match(text, at)
        if word is None:
            return None
        if word[0] == "__attribute__":
            at = _closed(text, word.end())
            continue
        behind = _BLANK.match(text, word.end())
        if text.startswith("(", behind.end() if behind else word.end()):
            return at
        at = word.end()


def _closed(text: str, at: int) -> int:
    """Behind the parenthesis that closes the first one from here; the end of the text where none does."""
    depth = 0
    for match in _ROUND.finditer(text, at):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return len(text)


def _head(head: str, setting: Setting) -> str:
    """What stands before a kernel's name, with other bounds."""
    dropped = ("launch_bounds", "maxnreg", "block_size") if setting.kind == "bounds" else ("launch_bounds", "maxnreg")
    kept, at, threads = [], 0, str(setting.threads or "")
    for match in _ATTRIBUTE.finditer(head):
        if match[1] in dropped:
            end = _closed(head, match.start())
            if match[1] == "launch_bounds" and not threads:
                threads = _first(head[match.end() : end])
            kept.append(head[at : match.start()])
            at = end
    if setting.kind == "maxnreg":
        bounds = f"maxnreg({setting.registers})"
    elif threads:
        bounds = f"launch_bounds({threads}, {setting.blocks})" if setting.blocks else f"launch_bounds({threads})"
    else:
        return head
    return "".join((*kept, head[at:], f" __attribute__(({bounds})) "))


def _first(arguments: str) -> str:
    """The first of ``(THREADS, BLOCKS)``."""
    depth = 0
    for match in re.finditer(r"[(),]", arguments):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == (1 if match[0] == "," else 0):
            return arguments[arguments.find("(") + 1 : match.start()]
    return ""
