"""What is to be compiled: a PTX file, a CUDA source, or a compiler's command line taken apart. No shell is involved."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spillscan.builds import compilation
from spillscan.output.errors import InputError, UsageError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OWN_VALUE = _words(
    "-o --output-file -odir --output-directory -MF --dependency-output -MT --dependency-target-name -MQ"
    " -arch --gpu-architecture -code --gpu-code -gencode --generate-code -maxrregcount --maxrregcount"
    " -t --threads -split-compile --split-compile -time --time --keep-dir -keep-dir"
)
"""nvcc's options with a value that the sweep sets itself, or that would make it write files."""
_OWN_FLAG = _words(
    "-c --compile -dc --device-c -dw --device-w -cubin --cubin -ptx --ptx -fatbin --fatbin -lib --lib -link --link -run"
    " --run -E --preprocess -M --generate-dependencies -MM --generate-nonsystem-dependencies -MD"
    " --generate-dependencies-with-compile -MMD --generate-nonsystem-dependencies-with-compile -MP"
    " --generate-dependency-targets -keep --keep -save-temps --save-temps -dryrun --dryrun -v --verbose"
    " -dlink --device-link -optix-ir --optix-ir"
)
"""Those without a value."""
_PAIRS = _words(
    "-I --include-path -isystem --system-include -include --pre-include -D --define-macro -U --undefine-macro -x"
    " --x -L --library-path -l --library -std --std -ccbin --compiler-bindir -Xcompiler --compiler-options -Xptxas"
    " --ptxas-options -Xlinker --linker-options -Xcudafe -Xnvlink --nvlink-options -Xnvvm -Xcicc -Xarchive"
    " --archive-options -Xfatbin -optf --options-file -O --optimize -rdc --relocatable-device-code"
)
"""Options whose value may stand in the next word, which is then no option, whatever it looks like."""
_RELOCATABLE = ("-dc", "--device-c")
_LTO = ("-dlto", "--dlink-time-opt", "-lto")
_ARCH = re.compile(r"sm_\d+[af]?")
_SHELL = re.compile(r"[\"$`\\\n\r]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationUnit:
    """One translation unit."""

    path: str
    """PTX file or CUDA source, as the user named it."""
    folder: str = ""
    """Where its command line runs; empty: here."""
    compiler: str | None = None
    """The nvcc of its command line; ``None`` where none is named."""
    options: tuple[str, ...] = ()
    """nvcc's options, without those that the sweep sets itself."""
    cap: int | None = None
    """The command line's own ``-maxrregcount``."""
    targets: tuple[tuple[str, str], ...] = ()
    """(real arch, virtual arch) that the command line compiles for: ``("sm_90", "compute_80")``."""

    @property
    def is_ptx(self) -> bool:
        """Whether ptxas takes it as it is."""
        return self.path.endswith(".ptx")

    @property
    def file(self) -> str:
        """The path as seen from here."""
        return os.path.join(self.folder, self.path)

    @property
    def safe_path(self) -> str:
        """The path such that no program takes it for an option."""
        return os.path.join(os.curdir, self.path) if self.path.startswith("-") else self.path

    def virtual(self, arch: str) -> str:
        """The virtual arch that PTX for ``arch`` is made for."""
        return dict(self.targets).get(arch, arch.replace("sm_", "compute_"))


def unit(text: str) -> TranslationUnit:
    """What an argument of the command names. Raises where it is neither a file to compile nor a command line."""
    if os.path.exists(text):
        return _file(text)
    words = _split(text)
    if len(words) > 1:
        return of_command(text, words)
    raise InputError(f"{text}: no such file", "give a PTX file, a CUDA source, or a quoted nvcc command line")


def _file(path: str) -> TranslationUnit:
    if not path.endswith((".ptx", ".cu")) or os.path.isdir(path):
        raise InputError(f"{path} is not a .ptx or .cu file", "compile others by their command: 'nvcc -x cu … -c FILE'")
    return _checked(TranslationUnit(path=path))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the command line cannot be taken apart: {error}", "quote it as a shell would") from None


def of_command(text: str, words: Sequence[str], folder: str = "") -> TranslationUnit:
    """What a command line compiles that runs in ``folder``; ``text`` names it in complaints."""
    parsed = compilation.parse(words)
    if parsed is None or parsed.tool != "nvcc":
        raise UsageError(
            f"{text!r} is neither a file nor a command line of nvcc", "quote the whole command: 'nvcc … -c x.cu'"
        )
    if parsed.sources != 1:
        count = "no source" if not parsed.sources else f"{parsed.sources} sources"
        raise UsageError(f"the command line names {count}", "sweep one source at a time")
    _refuse_elsewhere(words[: parsed.tool_index], folder)
    options: list[str] = []
    cap = ""
    kinds: list[tuple[str, str]] = []
    for option, value, taken in _options(words[parsed.tool_index + 1 :]):
        if option in _LTO or (option in ("-code", "-gencode", "--generate-code", "--gpu-code") and "lto_" in value):
            raise UsageError("link-time optimisation: registers are decided at the link", "sweep it without -dlto")
        if option in ("-maxrregcount", "--maxrregcount"):
            cap = value
        elif option in _RELOCATABLE:
            options.append("-rdc=true")
        elif option in _OWN_VALUE or option in _OWN_FLAG:
            kinds.append((option, value))
        elif option != parsed.source:
            options += taken
    if cap and not cap.isdigit():
        raise UsageError(f"-maxrregcount={cap} is not a number", "write -maxrregcount=64")
    return _checked(
        TranslationUnit(
            path=parsed.source,
            folder=folder,
            compiler=words[parsed.tool_index],
            options=tuple(options),
            cap=int(cap) if cap else None,
            targets=_targets(kinds),
        )
    )


def _refuse_elsewhere(before: Sequence[str], folder: str) -> None:
    """A ``cd`` in front of the compiler makes its names those of another folder, where another file may have them."""
    for word, following in pairwise(before):
        place = os.path.join(folder, following)
        if word == "cd" and os.path.realpath(place) != os.path.realpath(folder or os.curdir):
            raise UsageError(f"the command line changes to {following}", "run spillscan from there, without the cd")


def _options(words: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
    """(option, value, its words) of each option; anything else is an option without value."""
    rest = iter(words)
    for word in rest:
        if word == "&&":
            return
        name, equals, value = word.partition("=")
        if equals and word.startswith("-"):
            yield name, value, [word]
        elif word in _OWN_VALUE or word in _PAIRS:
            following = next(rest, "")
            yield word, following, [word, following]
        elif word.startswith("-o") and word[2:3] not in ("", "p", "d") and not word.startswith("--"):
            yield "-o", word[2:], [word]
        else:
            yield word, "", [word]


def _targets(kinds: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Each real arch with its virtual one, in the order of the command line."""
    found: dict[str, str] = {}
    general = ""
    codes = ""
    for option, value in kinds:
        if option in ("-gencode", "--generate-code"):
            arch = re.search(r"arch=(compute_\w+)", value)
            for real in _ARCH.findall(value.partition("code=")[2]):
                found.setdefault(real, arch[1] if arch else real.replace("sm_", "compute_"))
        elif option in ("-arch", "--gpu-architecture"):
            general = value
        elif option in ("-code", "--gpu-code"):
            codes = value
    for real in _ARCH.findall(codes or general):
        virtual = general if general.startswith("compute_") else real.replace("sm_", "compute_")
        found.setdefault(real, virtual)
    return tuple(found.items())


def _checked(found: TranslationUnit) -> TranslationUnit:
    if not os.path.isfile(found.file):
        raise InputError(f"{found.file}: no such file", "run from the folder that the command line is meant for")
    if not found.is_ptx and _SHELL.search(found.path):
        raise InputError(f"{found.path!r}: nvcc hands file names to a shell, which would act on this one", "rename it")
    return found
