"""What machine code holds, by function: figures, and what else is known of it; and the classes of opcodes.

Accesses to local memory are a chapter of their own, :mod:`spillscan.model.local`, whose names are imported from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Literal

from msgspec import Struct

from spillscan.model.local import (
    NO_TRAFFIC,
    AccessClass,
    AddressForm,
    Evidence,
    FlowKind,
    Group,
    Grouped,
    LocalAccess,
    LocalTraffic,
    SourceLine,
    Traffic,
    WeighedLine,
    weight,
)
from spillscan.model.usage import LaunchBounds, Origin, Role, Usage

__all__ = [
    "NO_TRAFFIC",
    "AccessClass",
    "AddressForm",
    "Evidence",
    "FlowKind",
    "Group",
    "Grouped",
    "LocalAccess",
    "LocalTraffic",
    "SourceLine",
    "Traffic",
    "WeighedLine",
    "weight",
]


class WarpRole(Struct, frozen=True, kw_only=True):
    """The code that some warps of a block run with a number of registers of their own (``setmaxnreg``).

    It is what control reaches from one USETMAXREG, or from the kernel's start, without coming to another. Code that
    several roles run counts for each.
    """

    address: int | None
    """Byte offset of its USETMAXREG; ``None``: the kernel's start."""
    registers: int | None
    """Per thread from there on; ``None`` of the start, where it is what the kernel was launched with, and where the
    instruction does not say."""
    follows: bool
    """Another role's code leads to it: the same warps may run one after the other."""
    spill: Traffic | None
    """Its accesses to spill slots, callees in the same listing included; ``None`` where it is not known which of its
    accesses are some."""
    local: Traffic
    """All its accesses to local memory."""


class LivePeak(Struct, frozen=True, kw_only=True):
    """Where the most general registers are live: in a dump as ``nvdisasm -plr`` shows it, else by dataflow over the
    machine code (:mod:`spillscan.reading.machine.liveness`)."""

    registers: int
    """Live at once, those that the instruction writes included."""
    address: int
    """Byte offset of the instruction."""
    line: int | None
    """1-based line of the dump; ``None`` of a binary."""
    source: SourceLine | None = None
    """Where it comes from; ``None`` without line information (nvdisasm ignores -g where -plr is given)."""
    at_least: bool = False
    """More may be live: something in the code is not known."""


class Maker(Struct, frozen=True, kw_only=True):
    """The tool that wrote a cubin, as far as the cubin says."""

    tool: str
    """``ptxas`` or ``nvlink``; empty where only a version is given (cubins of the old layout, before CUDA 13)."""
    version: str
    """``13.5.37``; ``12.6`` where no more is given."""
    options: str
    """Its command line; empty where it is not given."""

    def __str__(self) -> str:
        return f"{self.tool or 'CUDA'} {self.version}" + (f" {self.options}" if self.options else "")


class CodeText(Struct, frozen=True, kw_only=True):
    """A function's machine code, and all that it refers to: what ``diff --with code`` compares."""

    number: int
    """Number of its architecture: 90."""
    words: bytes
    """Its instructions, packed by zlib."""
    references: tuple[tuple[int, str], ...] = ()
    """(byte offset, what is put or read there), ascending; ``#N`` is the number of an object in ``data``."""
    data: tuple[tuple[str, str], ...] = ()
    """(label, value) of each attribute and of each object referred to, directly or through one another; of contents
    the value is a digest that begins with ``#``."""
    unknown: str = ""
    """Why not all that it refers to is known; empty: all is."""
    parts: tuple[int, ...] = ()
    """Byte offsets at which callees begin that its section holds."""
    function: bool = False
    """A device function: its callers depend on its registers."""
    lines: tuple[tuple[int, str, int], ...] = ()
    """(first instruction, source file, line) of each run of instructions of one line; line 0: unknown."""


MOST_REGISTERS = 255
"""That an instruction can name; ptxas allocates no more on any device, and ignores greater caps."""
SETS_REGISTERS = "USETMAXREG"
"""``setmaxnreg`` (Hopper and later): from there on a warp has another number of registers than at the start."""


class SassStats(Struct, frozen=True, kw_only=True):
    """What one function's machine code holds."""

    instructions: int
    """Machine instructions, padding included."""
    code_bytes: int
    """Bytes from the first instruction to the end of the last, control words included."""
    opcodes: Sequence[tuple[str, int]]
    """(mnemonic without modifiers, instructions), by mnemonic; hashable, equal to any tuple of the same."""
    local: LocalTraffic = NO_TRAFFIC
    """Accesses to local memory."""
    shared_spills: int | None = None
    """Shared-memory accesses that ptxas annotates as spills; ``None`` where the dump has no annotations."""
    registers: int | None = None
    """Registers allocated per thread, where the dump says so (``SHI_REGISTERS``, ``-res-usage``)."""
    live_peak: LivePeak | None = None
    """The live-register peak; ``None`` without ``-plr``, and of a binary where it was not asked for."""
    origin: Origin | None = None
    """Where the function stands in the dump."""
    maker: Maker | None = None
    """What wrote its cubin; ``None`` from a dump, or where the cubin does not report."""
    roles: tuple[WarpRole, ...] = ()
    """Of code that sets its warps' registers: the start, then by their registers; empty: it sets none."""
    digest: str | None = None
    """Stands for the code: its bytes, its own constants, and what relocations put into it, by name and not by address.
    Functions with the same one are the same code, whatever they are called and wherever they lie; ``None`` from a dump,
    which does not show all of it."""
    register_cap: int | None = None
    """Most registers per thread that ptxas was allowed, by launch bounds, ``__maxnreg__`` or ``-maxrregcount``; 255: as
    many as an instruction can name; ``None`` from a dump, and of a device function."""
    text: CodeText | None = None
    """The code itself, where it was asked for."""

    @property
    def setmaxnreg(self) -> int | None:
        """USETMAXREG instructions; ``None`` where no instruction was read."""
        return dict(self.opcodes).get(SETS_REGISTERS, 0) if self.instructions else None

    def spills(self, role: Role) -> tuple[int, int] | None:
        """Bytes of spill stores and of spill loads of the function itself; ``None`` where no instruction was read, or
        the class of some accesses is not known."""
        known = self.local.spills(role) if self.instructions else None
        return None if known is None else known.pair

    @property
    def opcode_classes(self) -> dict[str, int]:
        """Instructions by class (:data:`OPCODE_CLASSES`), largest first; they add up to ``instructions``."""
        return classified(self.opcodes)

    @property
    def unknown_opcodes(self) -> tuple[str, ...]:
        """Mnemonics that no class holds; their instructions are of class ``other``."""
        return unclassified(self.opcodes)


class SassFunction(Struct, frozen=True, kw_only=True):
    """One function of one cubin in a dump."""

    symbol: str
    """As printed."""
    arch: str | None
    """``sm_90a``; ``None`` where the dump does not say."""
    role: Role
    """Entry or device function, as far as the dump says."""
    member: int
    """0-based number of the cubin in the dump."""
    identifier: str = ""
    """Source that the fatbin member names (builds with line information), else the object of a static library that
    holds it; empty where the dump says neither."""
    stats: SassStats
    """Its figures."""
    usage: Usage | None = None
    """Its resources, where it comes from a binary; ``None`` from a dump."""
    launch_bounds: LaunchBounds | None = None
    """As its binary says."""
    dynamic_shared: bool | None = None
    """Whether it declares shared memory whose size each launch gives; ``None`` from a dump."""
    final: bool | None = None
    """``False``: of a binary that the device linker still has to link."""
    caller: str = ""
    """The kernel in whose code it stands as a callee, of which it is that kernel's copy; empty: it stands alone."""


class FunctionUsage(Struct, frozen=True, kw_only=True):
    """Resources of one function of one cubin."""

    symbol: str
    """As printed."""
    arch: str | None
    """``sm_90``; ``None`` for a bare cubin, whose dump does not say."""
    identifier: str
    """Source that the fatbin member names; empty where it does not."""
    usage: Usage
    """``shared_bytes`` as ptxas counts it, where the arch is known; spills are not in this listing."""
    dynamic_stack: bool
    """``STACK:UNKNOWN``: recursion or alloca. ``usage.stack_bytes`` is ``None`` then."""
    origin: Origin
    """Where its figures stand."""


PortableForm = Literal["PTX", "LTO-IR"]


class PortableCode(Struct, frozen=True, kw_only=True):
    """One module of which machine code is still to be made: by the driver, or by the device linker."""

    form: PortableForm
    """What it is written in."""
    arch: str | None
    """What it is written for: ``compute_90a``; ``None`` where it does not say."""
    kernels: tuple[str, ...] | None
    """Symbols of its entries; ``None`` where they cannot be read."""
    bytes: int
    """Its size, decompressed."""
    unit: str = ""
    """As that of a kernel."""
    origin: Origin | None = None
    """Where it stands."""
    version: str | None = None
    """Of PTX, its ISA version: ``8.5``; ``None`` where that is not known."""


OPCODE_CLASSES: dict[str, tuple[str, ...]] = {
    name: tuple(opcodes.split())
    for name, opcodes in {
        "fp32": "FADD FADD2 FADD32I FCHK FCMP FFMA FFMA2 FFMA32I FHADD FHFMA FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSEL "
        "FSET FSETP FSWZ FSWZADD RRO UFADD UFFMA UFHADD UFHFMA UFMNMX UFMUL UFSEL UFSET UFSETP",
        "fp64": "DADD DFMA DMNMX DMUL DSET DSETP",
        "fp16": "HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2 VHMNMX",
        "fp8": "QADD4 QFMA4 QMUL4",
        "sfu": "MUFU",
        "int": "BFE BFI BMSK BREV FLO IABS IADD IADD2 IADD3 IADD32I IADD64 ICMP IDP IDP4A IMAD IMAD32I IMADSP "
        "IMNMX IMUL IMUL32I ISAD ISCADD ISCADD32I ISET ISETP ISUB LEA LOP LOP3 LOP32I POPC SGXT SHF SHL SHR VABSDIFF "
        "VABSDIFF4 VADD VIADD VIADDMNMX VIMNMX VIMNMX3 VISET VMAD VMNMX VSET VSETP VSHL VSHR XMAD "
        "UBMSK UBREV UFLO UIABS UIADD3 UIADD64 UIMAD UIMNMX UISETP ULEA ULOP ULOP3 ULOP32I "
        "UPOPC USGXT USHF USHL USHR UVIADD UVIADDMNMX UVIMNMX",
        "convert": "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP UF2F UF2FP UF2I UF2IP UFRND UI2F UI2FP UI2I UI2IP",
        "tensor": "BGMMA BMMA DMMA HGMMA HMMA IGMMA IMMA IMMA_SP OMMA QGMMA QMMA UTCATOMSWS UTCBAR UTCHMMA UTCIMMA "
        "UTCMXQMMA UTCOMMA UTCQMMA",
        "move": "CREDUX CS2R CS2UR MOV MOV32I MOVM P2R PRMT R2P R2R R2UR REDUX S2R S2UR SEL SHFL UCLEA UMOV UP2UR "
        "UPRMT UR2R UR2UP USEL",
        "predicate": "CSET CSETP LEPC MATCH PLOP3 PSET PSETP ULEPC UPLOP3 UPSETP VOTE VOTEU",
        "global": "LDG STG ATOMG REDG UBLKRED UBLKCP UTMALDG UTMASTG UTMAREDG UTMAPF UBLKPF LDGMC LDGSTS UREDGR USTGR "
        "UTMACCTL UTMACMDFLUSH SUATOM SULD SURED SUST SUQ",
        "generic": "LD ST ATOM RED CCTL QSPC",
        "local": "LDL STL CCTLL",
        "shared": "LDS LDSM STS STSM ATOMS UBLKRED_S STAS REDAS UMEMSETS",
        "tensor memory": "LDT LDTM STT STTM UTCCP UTCSHIFT",
        "constant": "LDC LDCU ULDC CCTLC",
        "texture": "TEX TEXS TLD TLD4 TLD4S TLDS TMML TXD TXQ TXA CCTLT",
        "control": "ACQBULK ACQSHMINIT BMOV BPT BRA BREAK BRK BRX BRXU BSSY BSYNC CAL CALL CGAERRBAR CONT ELECT "
        "ENDCOLLECTIVE EXIT GETLMEMBASE IDE JCAL JMP JMX JMXU KILL LONGJMP NANOSLEEP PBK PCNT PEXIT "
        "PLONGJMP PMTRIG PREEXIT PRET RAM RET RPCMOV RTT SAM SETCTAID SETLMEMBASE SETMAXREG SSY SYNC "
        "UCGABAR_ARV UCGABAR_WAIT UGETNEXTWORKID USETMAXREG USETSHMSZ UVIRTCOUNT WARPSYNC YIELD",
        "barrier": "ARRIVES B2R BAR DEPBAR ERRBAR MEMBAR R2B FENCE WARPGROUP WARPGROUPSET LDGBAR LDGDEPBAR SYNCS "
        "SYNCSU TEXDEPBAR USYNCS",
        "nop": "NOP",
    }.items()
}
"""Opcodes by class, by the headings and descriptions of NVIDIA's tables (CUDA Binary Utilities, "Instruction Set
Reference", 11.8 to 13.1: Maxwell and Pascal, Volta, Turing, Ampere and Ada, Hopper, Blackwell), which a test walks, and
some more that real dumps hold. An opcode that is not in the table is of class ``other``: it is counted and named, never
guessed."""

CLASS_OF: dict[str, str] = {opcode: name for name, opcodes in OPCODE_CLASSES.items() for opcode in opcodes}

OTHER_CLASS = "other"


def classified(opcodes: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Instructions by class, largest first."""
    found: dict[str, int] = {}
    class_of, held = CLASS_OF.get, found.get
    for opcode, count in opcodes:
        name = class_of(opcode, OTHER_CLASS)
        found[name] = held(name, 0) + count
    by_name = sorted(found.items())
    return dict(sorted(by_name, key=itemgetter(1), reverse=True))


def unclassified(opcodes: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """The mnemonics that are in no class, by name."""
    return tuple(sorted({opcode for opcode, _ in opcodes}.difference(CLASS_OF)))
