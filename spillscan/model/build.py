"""Records of what was read: kernels with everything known about them, and the build that they make up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.model import symbols
from spillscan.model.gaps import Issue
from spillscan.model.usage import NUMBERS, Advisory, Confidence, KernelKey, Launch, LaunchBounds, Origin, Role, Usage

if TYPE_CHECKING:
    import pandas

    from spillscan.model.code import FunctionUsage, PortableCode, SassFunction, SassStats


class Unit(Struct, frozen=True, kw_only=True):
    """One compilation of device code, from one source to one object."""

    source: str = ""
    """First source, relative to spillscan's working directory; empty if unknown."""
    object: str = ""
    """File that it writes, likewise; empty if unknown."""
    done: bool = False
    """Whether it ended well."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files from which its kernels may be read."""
        return tuple(filter(None, (self.source, self.object)))

    @property
    def name(self) -> str:
        """Name for people: its source, else its object."""
        return self.source or self.object or "a compilation"


_NO_SUM = "recursion, alloca or indirect calls"
"""Reasons why a call tree's stack has no size known to the compiler."""


class Kernel(Struct, frozen=True, kw_only=True, gc=False):
    """One kernel (or device function) of one arch in one translation unit."""

    key: KernelKey
    """Symbol, arch and unit."""
    role: Role
    """Entry, device function, or unknown if only a warning names it."""
    usage: Usage
    """Its metrics."""
    confidence: Confidence = "certain"
    """``ambiguous`` if interleaved output leaves open which metrics belong to it."""
    reasons: tuple[str, ...] = ()
    """Why it is ambiguous."""
    final: bool | None = None
    """``False``: relocatable code, whose registers and stack the linker decides. ``True``: already linked.
    ``None``: nothing in the log shows that it was compiled as relocatable code.
    """
    advisories: tuple[Advisory, ...] = ()
    """Compiler messages that name this kernel, in the order printed."""
    origins: tuple[Origin, ...] = ()
    """Places where it was read; the first is the start of its record."""
    compile_ms: float | None = None
    """Compile time as printed (ptxas 12.8 and later), or as traced by nvcc; different in every run.

    It is checked only if a limit is set.
    """
    source: str = ""
    """Source file that the build step compiles, as named in its command line; empty if no line names it."""
    path: str = ""
    """Absolute path of its unit, if a run file names that; empty otherwise, and in snapshots."""
    sass: SassStats | None = None
    """Contents of its machine code, from a disassembly or a binary; ``None`` if none was read."""
    launch_bounds: LaunchBounds | None = None
    """Launch bounds in its binary; ``None`` if none was read, or it has none."""
    dynamic_shared: bool | None = None
    """Whether its code declares shared memory that is sized at launch; ``None`` if no binary was read."""
    launch: Launch | None = None
    """Its launch, as recorded by its compiler next to the code; ``None`` if there is no such record."""
    configuration: tuple[tuple[str, str], ...] = ()
    """(name, value) of its tuning parameters, recorded by its compiler next to the code: ``tile``, ``num_warps`` …"""
    caller: str = ""
    """For a device function in a binary: the symbol of the kernel whose copy it is; empty if it is standalone."""

    @property
    def is_helper(self) -> bool:
        """Whether it is helper code that ptxas adds, which tables omit."""
        return self.role == "function" and symbols.is_helper(self.key.symbol)

    @property
    def dynamic_stack(self) -> str:
        """Why no tool can add up the stack of its call tree: a message, or recursion, ``alloca`` or indirect calls;
        empty if it is known, or its input leaves it out."""
        for each in self.advisories:
            if each.kind in ("dynamic_stack", "recursive_function"):
                return each.text
        usage, code = self.usage, self.sass
        if self.role == "function" or self.final is False:
            return ""
        known = usage.cumulative_stack_bytes is not None
        if not known and self.final and any(origin.format == "nvlink" for origin in self.origins):
            return "nvlink cannot determine it"
        if not known and code is not None and code.origin is not None and code.origin.format == "binary":
            return _NO_SUM
        counted = usage.cumulative_stack_bytes if known else usage.stack_bytes
        local = bool(code is not None and code.local.total.accesses) or any(self.cumulative_spills or ())
        if counted == 0 and local and not usage.local_bytes:
            return f"local memory is used, yet ptxas counts 0 B ({_NO_SUM})"
        return ""

    @property
    def saves_for_callers(self) -> bool:
        """Whether all spills that ptxas counts for a device function are callee-saved registers.

        The code shows this: if ptxas marks its spills, the function's own frame has nothing else.
        """
        printed, code = self.spills, self.sass
        if self.role != "function" or not printed or not any(printed) or code is None or not code.instructions:
            return False
        others = code.local.of("spill").accesses or code.local.doubtful
        saved = code.local.frame or code.local.of("frame")  # arguments and arrays may be in the frame, too
        return not others and saved.pair == printed

    @property
    def spills(self) -> tuple[int, int] | None:
        """(spill store bytes, spill load bytes) per thread, as counted by the compiler, else from the code.

        ``None`` if no input reports them.
        """
        usage = self.usage
        if usage.spill_store_bytes is None or usage.spill_load_bytes is None:
            return None if self.sass is None else self.sass.spills(self.role)
        return usage.spill_store_bytes, usage.spill_load_bytes

    @property
    def cumulative_spills(self) -> tuple[int, int] | None:
        """:attr:`spills` of the kernel with its callees; ``None`` if no input has the callees, or their spills."""
        if self.usage.cumulative_spills is None and self.sass is not None:
            tree = self.sass.local.tree
            return None if tree is None else tree.pair
        return self.usage.cumulative_spills

    @property
    def spill_bounds(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Lower and upper bound of (spill store bytes, spill load bytes), including callees in the inputs.

        Both are equal if the values are known; ``None`` if there are no bounds.
        """
        known = self.usage.cumulative_spills
        if known is None and self.sass is not None and self.sass.instructions:
            local = self.sass.local
            if self.usage.spills is None or local.callees:
                least, most = local.bounds(self.role)
                return least.pair, most.pair
        known = known or self.spills
        return None if known is None else (known, known)

    @property
    def own_spill_bounds(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """:attr:`spill_bounds` of the kernel itself, without its callees."""
        known, code = self.spills, self.sass
        if known is None and code is not None and code.instructions:
            least, most = code.local.own.bounds(self.role)
            return least.pair, most.pair
        return None if known is None else (known, known)

    @property
    def name(self) -> str:
        """Full demangled name."""
        return symbols.demangle(self.key.symbol)

    @property
    def named_by(self) -> str | symbols.Tuned:
        """Key of its readable names: the symbol, with its tuning parameters if it has any."""
        if not self.configuration:
            return self.key.symbol
        origin = None if self.sass is None else self.sass.origin
        place = "" if origin is None else "/".join(origin.input.split("/")[-2:])
        return symbols.Tuned(self.key.symbol, symbols.tuned_for(self.configuration), place)

    @property
    def short_name(self) -> str:
        """Base name for tables: no parameters, no namespaces, template arguments folded."""
        return symbols.short_name(self.key.symbol)


class Stats(Struct, frozen=True, kw_only=True):
    """Amount of input, and how much of it was understood."""

    inputs: int = 0
    """Inputs read."""
    lines: int = 0
    """Lines read."""
    bytes: int = 0
    """Bytes read: text after decompression; binaries and archives as stored, plus each text inside them."""
    recognised_lines: int = 0
    """Lines that a grammar rule describes."""
    unknown_lines: int = 0
    """Lines of a known tool that no grammar rule describes."""
    unknown_clauses: int = 0
    """Clauses of known lines that no grammar rule describes."""

    def __add__(self, other: Stats) -> Stats:
        return Stats(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class Build(Struct, frozen=True, kw_only=True):
    """Everything read from the inputs of one build."""

    kernels: tuple[Kernel, ...] = ()
    """Kernels in the order of the inputs; a symbol may have several archs and units."""
    issues: tuple[Issue, ...] = ()
    """Problems with the inputs, in their order."""
    stats: Stats = field(default_factory=Stats)
    """Amount of input read."""
    portable: tuple[PortableCode, ...] = ()
    """Code that is not yet machine code, in the order of the inputs."""
    empty_units: tuple[str, ...] = ()
    """Objects without kernels that were compiled according to a log."""
    units: tuple[Unit, ...] = ()
    """Compilations that were due, as far as known from more than a log, with their results; not in snapshots."""

    def __hash__(self) -> int:
        return hash((self.kernels, self.issues, self.stats))

    @property
    def named(self) -> Build:
        """The build without records that no input names a kernel for.

        These are gaps: they cannot be found again in another build.
        """
        if all(kernel.key.symbol for kernel in self.kernels):
            return self
        return replace(self, kernels=tuple(kernel for kernel in self.kernels if kernel.key.symbol))

    @property
    def toolkits(self) -> tuple[str, ...]:
        """Compiler releases that made the build, oldest first, as far as code names them: ``13.0.88``."""
        found = {kernel.sass.maker.version for kernel in self.kernels if kernel.sass and kernel.sass.maker}
        whole = (each for each in found if each and not any(other.startswith(f"{each}.") for other in found))
        return tuple(sorted(whole, key=symbols.natural))

    def compiled(self) -> Callable[[str, str | None], bool]:
        """Function for whether a unit was compiled for an arch, and its report is complete.
        Its arguments are the name of the unit and the arch. A kernel missing from such a report is gone. A unit without
        kernels was compiled for every arch.
        """
        open_places = {issue.origin.input for issue in self.issues if issue.origin and "kernels" in issue.hidden}
        done = {unit.name for unit in self.units}
        done -= {u.name for u in self.units if not u.done or not open_places.isdisjoint(u.files)}
        unit_of = self.unit_names()
        shown = {(unit_of(kernel), symbols.arch_family(kernel.key.arch)) for kernel in self.kernels} if done else set()
        empty = done - {unit for unit, _ in shown}
        return lambda unit, arch: unit in empty or (unit in done and (unit, symbols.arch_family(arch)) in shown)

    def unit_names(self) -> Callable[[Kernel], str]:
        """Function for the name of the unit that a kernel was compiled in; empty if unknown."""
        by_file = {file: unit.name for unit in self.units for file in unit.files}

        def name(kernel: Kernel) -> str:
            files = (kernel.source, *(origin.input for origin in kernel.origins))
            names = {by_file[file] for file in files if file in by_file}
            return names.pop() if len(names) == 1 else ""

        return name

    def to_pandas(self) -> pandas.DataFrame:
        """One row per kernel, in the build's order: identity as strings, metrics as nullable ``Int64``.
        Constant banks become columns ``constant_bytes_0`` and so on, for the banks that occur. Unknown values are
        ``<NA>``.
        """
        import pandas

        kernels = self.kernels
        columns: dict[str, object] = {
            "symbol": [kernel.key.symbol for kernel in kernels],
            "name": [kernel.name for kernel in kernels],
            "short_name": [kernel.short_name for kernel in kernels],
            "arch": [kernel.key.arch for kernel in kernels],
            "unit": [kernel.key.unit for kernel in kernels],
            "role": [kernel.role for kernel in kernels],
            "confidence": [kernel.confidence for kernel in kernels],
            "final": pandas.array([kernel.final for kernel in kernels], dtype="boolean"),
        }
        for name in NUMBERS:
            columns[name] = pandas.array([getattr(kernel.usage, name) for kernel in kernels], dtype="Int64")
        banks = [dict(kernel.usage.constant_bytes or ()) for kernel in kernels]
        for bank in sorted({bank for each in banks for bank in each}):
            columns[f"constant_bytes_{bank}"] = pandas.array([each.get(bank) for each in banks], dtype="Int64")
        columns["compile_ms"] = pandas.array([kernel.compile_ms for kernel in kernels], dtype="Float64")
        columns["input"] = [kernel.origins[0].input if kernel.origins else None for kernel in kernels]
        columns["line"] = pandas.array(
            [kernel.origins[0].line if kernel.origins else None for kernel in kernels], dtype="Int64"
        )
        return pandas.DataFrame(columns)


class LinkRecord(Struct, frozen=True):
    """Final metrics from the linker for one kernel of relocatable code."""

    symbol: str
    arch: str | None
    """``None`` if the linker does not name it."""
    usage: Usage
    origin: Origin


class Sidecar(Struct, frozen=True, kw_only=True):
    """Data that a compiler wrote next to the code of one kernel, or of all kernels of one file."""

    place: str
    """Folder and stem of its file, which are those of the code."""
    symbol: str = ""
    """Symbol of the kernel; empty for all kernels of the file."""
    threads_per_block: int | None = None
    """Threads per block; ``None`` if not specified."""
    dynamic_shared_bytes: int | None = None
    """Dynamic shared memory, bytes per block; ``None`` if not specified."""
    cluster_blocks: int | None = None
    """Blocks per cluster; ``None`` if not specified."""
    configuration: tuple[tuple[str, str], ...] = ()
    """(name, value) of the kernel's tuning parameters."""
    origin: Origin
    """The file."""


class Reading(Struct):
    """Contents of one input."""

    kernels: list[Kernel] = field(default_factory=list)
    links: list[LinkRecord] = field(default_factory=list)
    functions: list[SassFunction | FunctionUsage] = field(default_factory=list)
    """Functions in disassemblies, to be joined with the kernels of logs."""
    sidecars: list[Sidecar] = field(default_factory=list)
    """Data that compilers wrote next to machine code, to be joined with its kernels."""
    issues: list[Issue] = field(default_factory=list)
    stats: Stats = field(default_factory=Stats)
    portable: list[PortableCode] = field(default_factory=list)
    empty_units: list[str] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    """Compilations that were due, with their results."""

    def add(self, other: Reading) -> None:
        """Append the contents of another input."""
        self.stats += other.stats
        for name in self.__struct_fields__:
            if name != "stats":
                getattr(self, name).extend(getattr(other, name))

    @property
    def is_empty(self) -> bool:
        """Whether the input has neither records nor issues."""
        return not (self.kernels or self.functions or self.portable or self.issues)

    @property
    def understood(self) -> bool:
        """Whether any part of the input was understood."""
        return bool(self.stats.recognised_lines or self.functions or self.portable)


def damage(kernel: Kernel) -> tuple[object, ...]:
    """Sort key of all kernel tables: most spilled bytes first, then most registers."""
    usage, key = kernel.usage, kernel.key
    worst = (-sum(kernel.spills or (0,)), -(usage.registers or 0), -(usage.stack_bytes or 0))
    return (*worst, key.symbol, key.arch or "", key.unit)
