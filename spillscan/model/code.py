"""Contents of machine code by function: metrics and everything else known about it; and the classes of opcodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from spillscan.model.local import (
    NO_TRAFFIC,
    LocalTraffic,
    SourceLine,
    Traffic,
)
from spillscan.model.usage import LaunchBounds, Origin, Role, Usage


class WarpRole(Struct, frozen=True, kw_only=True):
    """Code that some warps of a block run with their own number of registers (``setmaxnreg``).
    It is reachable from one USETMAXREG, or from the kernel's start, without passing another. Code that several roles
    run counts for each.
    """

    address: int | None
    """Byte offset of its USETMAXREG; ``None`` for the kernel's start."""
    registers: int | None
    """Registers per thread from there on.

    ``None`` for the start, which has the number of the launch, and if the instruction does not specify it.
    """
    follows: bool
    """Whether another role's code leads to it: the same warps may run one after the other."""
    spill: Traffic | None
    """Its accesses to spill slots, including callees in the same listing.

    ``None`` if it is unknown which of its accesses these are.
    """
    local: Traffic
    """All its accesses to local memory."""


class LivePeak(Struct, frozen=True, kw_only=True):
    """Place where the most general registers are live.

    In a disassembly as shown by ``nvdisasm -plr``, else by dataflow over the machine code
    (:mod:`spillscan.reading.machine.liveness`).
    """

    registers: int
    """Registers live at once, including those that the instruction writes."""
    address: int
    """Byte offset of the instruction."""
    line: int | None
    """1-based line of the disassembly; ``None`` for a binary."""
    source: SourceLine | None = None
    """Source line; ``None`` without line information (nvdisasm ignores -g together with -plr)."""
    at_least: bool = False
    """Whether more may be live, because some of the code is unknown."""


class Maker(Struct, frozen=True, kw_only=True):
    """Tool that wrote a cubin, as far as the cubin names it."""

    tool: str
    """``ptxas`` or ``nvlink``; empty if only a version is known (old cubin layout, before CUDA 13)."""
    version: str
    """``13.5.37``; ``12.6`` if no more is known."""
    options: str
    """Options of ptxas; empty if unknown, as in linked code."""

    def __str__(self) -> str:
        return f"{self.tool or 'CUDA'} {self.version}" + (f" {self.options}" if self.options else "")


class CodeText(Struct, frozen=True, kw_only=True):
    """Machine code of a function and everything that it refers to, as compared by ``diff --with code``."""

    number: int
    """Number of its architecture: 90."""
    words: bytes
    """Instructions, compressed by zlib."""
    references: tuple[tuple[int, str], ...] = ()
    """(byte offset, what is inserted or read there), ascending; ``#N`` is the number of an object in ``data``."""
    data: tuple[tuple[str, str], ...] = ()
    """(label, value) of each attribute, and of each object that it refers to, directly or indirectly.

    The value of contents is a digest that begins with ``#``.
    """
    unknown: str = ""
    """Why some references are unknown; empty if all are known."""
    function: bool = False
    """Whether it is a device function, whose callers depend on its registers."""
    lines: tuple[tuple[int, str, int], ...] = ()
    """(first instruction, source file, line) of each run of instructions of one line; line 0 if unknown."""


MOST_REGISTERS = 255
"""Most registers that an instruction can name; ptxas allocates no more on any device, and ignores higher limits."""
SETS_REGISTERS = "USETMAXREG"
"""Opcode of ``setmaxnreg`` (Hopper and later), which changes the number of registers of a warp."""


class SassStats(Struct, frozen=True, kw_only=True):
    """Contents of one function's machine code."""

    instructions: int
    """Machine instructions, including padding."""
    code_bytes: int
    """Bytes from the first instruction to the end of the last, including control words."""
    opcodes: Sequence[tuple[str, int]]
    """(mnemonic without modifiers, instructions), by mnemonic; hashable, and equal to any tuple of the same."""
    local: LocalTraffic = NO_TRAFFIC
    """Accesses to local memory."""
    shared_spills: int | None = None
    """Shared-memory accesses that ptxas annotates as spills; ``None`` if the disassembly has no annotations."""
    registers: int | None = None
    """Registers allocated per thread, if known (``SHI_REGISTERS``, ``-res-usage``)."""
    live_peak: LivePeak | None = None
    """Peak of live registers; ``None`` without ``-plr``, and for a binary if not requested."""
    origin: Origin | None = None
    """Place of the function in the disassembly."""
    maker: Maker | None = None
    """Tool that wrote its cubin; ``None`` for a disassembly, or if the cubin does not name it."""
    roles: tuple[WarpRole, ...] = ()
    """Roles of code that sets its warps' registers: the start, then by registers; empty if it sets none."""
    digest: str | None = None
    """Digest of the code: its bytes, its own constants, and what relocations insert, by name and not by address.
    Functions with equal digests have the same code, whatever their names and addresses; ``None`` for a disassembly,
    which does not show all of it.
    """
    register_limit: int | None = None
    """Register limit per thread that ptxas had, from launch bounds, ``__maxnreg__`` or ``-maxrregcount``.

    255: as many as an instruction can name; ``None`` for a disassembly, and for a device function.
    """
    text: CodeText | None = None
    """The code itself, if requested."""

    @property
    def setmaxnreg(self) -> int | None:
        """Number of USETMAXREG instructions; ``None`` if no instruction was read."""
        return dict(self.opcodes).get(SETS_REGISTERS, 0) if self.instructions else None

    def spills(self, role: Role) -> tuple[int, int] | None:
        """Bytes of spill stores and of spill loads of the function itself.

        ``None`` if no instruction was read, or if the class of some accesses is unknown.
        """
        known = self.local.spills(role) if self.instructions else None
        return None if known is None else known.pair

    @property
    def opcode_classes(self) -> dict[str, int]:
        """Number of instructions by class (:data:`OPCODE_CLASSES`), largest first; they add up to ``instructions``."""
        sums: dict[str, int] = {}
        for opcode, count in self.opcodes:
            name = CLASS_OF.get(opcode, OTHER_CLASS)
            sums[name] = sums.get(name, 0) + count
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    @property
    def unknown_opcodes(self) -> tuple[str, ...]:
        """Mnemonics without a class; their instructions are of class ``other``."""
        return tuple(sorted({opcode for opcode, _ in self.opcodes}.difference(CLASS_OF)))


class SassFunction(Struct, frozen=True, kw_only=True):
    """One function of one cubin, from a disassembly or a binary."""

    symbol: str
    """Symbol as printed."""
    arch: str | None
    """``sm_90a``; ``None`` if the disassembly does not name it."""
    role: Role
    """Entry or device function, as far as known."""
    member: int
    """0-based number of the cubin in the disassembly."""
    identifier: str = ""
    """Source that the fatbin member names (builds with line information), else the object of a static library.

    Empty if neither is known.
    """
    stats: SassStats
    """Contents of its machine code."""
    usage: Usage | None = None
    """Resources from a binary; ``None`` for a disassembly."""
    launch_bounds: LaunchBounds | None = None
    """Launch bounds in its binary."""
    dynamic_shared: bool | None = None
    """Whether it declares shared memory that is sized at launch; ``None`` for a disassembly."""
    final: bool | None = None
    """``False`` for a binary that the device linker still has to link."""
    caller: str = ""
    """Kernel whose code contains this copy as a callee; empty if it is standalone."""


class FunctionUsage(Struct, frozen=True, kw_only=True):
    """Resources of one function of one cubin."""

    symbol: str
    """Symbol as printed."""
    arch: str | None
    """``sm_90``; ``None`` for a bare cubin, whose listing does not name it."""
    identifier: str
    """Source that the fatbin member names; empty if it names none."""
    usage: Usage
    """Metrics: ``shared_bytes`` as ptxas counts it, if the arch is known; without spills, which the listing lacks."""
    dynamic_stack: bool
    """Whether the listing has ``STACK:UNKNOWN`` (recursion or alloca); ``usage.stack_bytes`` is ``None`` then."""
    origin: Origin
    """Place of its metrics."""


DRIVER_SHARED_BYTES, FIRST_ARCH_WITH_RESERVE = 1024, 90
"""Shared memory per block that the driver reserves, and the first arch with it; linked cubins count it, ptxas does not.
"""


PortableForm = Literal["PTX", "LTO-IR"]


class PortableCode(Struct, frozen=True, kw_only=True):
    """Module that still has to be compiled to machine code, by the driver or the device linker."""

    form: PortableForm
    """Language of the module."""
    arch: str | None
    """Target: ``compute_90a``; ``None`` if not specified."""
    kernels: tuple[str, ...] | None
    """Symbols of its entries; ``None`` if they cannot be read."""
    bytes: int
    """Decompressed size."""
    unit: str = ""
    """Unit, like that of a kernel."""
    origin: Origin | None = None
    """Place where it was read."""
    version: str | None = None
    """ISA version of PTX: ``8.5``; ``None`` if unknown."""


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
"""Opcodes by class, by the headings and descriptions of NVIDIA's tables.
These are in CUDA Binary Utilities, "Instruction Set Reference", 11.8 to 13.1 (Maxwell and Pascal, Volta, Turing, Ampere
and Ada, Hopper, Blackwell), and a test checks them all; some more opcodes are from real disassemblies. An opcode that
is not in the table is of class ``other``: it is counted and named, never guessed.
"""

CLASS_OF: dict[str, str] = {opcode: name for name, opcodes in OPCODE_CLASSES.items() for opcode in opcodes}

OTHER_CLASS = "other"
