"""Opcodes by class: a table, and the sums over it.

Assigned by hand, by what the mnemonic says. An opcode that is not
in the table is of class ``other``; it is counted, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable

CLASSES: dict[str, tuple[str, ...]] = {
    name: tuple(opcodes.split())
    for name, opcodes in {
        "fp32": "FADD FADD2 FADD32I FCHK FCMP FFMA FFMA2 FFMA32I FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSEL FSET FSETP FSWZ "
        "FSWZADD RRO UFADD UFFMA UFMNMX UFMUL UFRND UFSEL UFSET UFSETP",
        "fp64": "DADD DFMA DMNMX DMUL DSET DSETP",
        "fp16": "HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2",
        "sfu": "MUFU",
        "int": "BFE BFI BMSK BREV FLO IABS IADD IADD2 IADD3 IADD32I IADD64 ICMP IDP IDP4A IMAD IMAD32I IMADSP IMMA_SP "
        "IMNMX IMUL IMUL32I ISAD ISCADD ISCADD32I ISET ISETP LEA LOP LOP3 LOP32I POPC SGXT SHF SHL SHR VABSDIFF "
        "VABSDIFF4 VHMNMX VIADD VIADDMNMX VIMNMX VIMNMX3 XMAD UBMSK UBREV UFLO UIABS UIADD3 UIADD64 UIMAD UIMNMX "
        "UISETP ULEA ULOP ULOP3 ULOP32I UPOPC USGXT USHF USHL USHR UVIADD UVIADDMNMX UVIMNMX",
        "convert": "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP UF2F UF2FP UF2I UF2IP UI2F UI2FP UI2I UI2IP",
        "tensor": "BMMA DMMA HGMMA HMMA IGMMA IMMA OMMA QGMMA QMMA BGMMA UTCBAR UTCHMMA UTCIMMA UTCMXQMMA UTCOMMA "
        "UTCQMMA UTCCP UTCSHIFT UTCATOMSWS",
        "move": "CS2R MOV MOV32I MOVM P2R PRMT R2P R2R R2UR S2R S2UR SEL SHFL REDUX CREDUX UMOV UP2UR UPRMT UR2UP USEL "
        "CS2UR UR2R",
        "predicate": "PLOP3 PSET PSETP UPLOP3 UPSETP VOTE VOTEU MATCH CSET CSETP LEPC",
        "global": "LDG STG ATOMG RED REDG UBLKRED UBLKCP UTMALDG UTMASTG UTMAREDG UTMAPF UBLKPF LDGDEPBAR LDGSTS "
        "UTMACCTL UTMACMDFLUSH SUATOM SULD SURED SUST SUQ",
        "generic": "LD ST ATOM CCTL QSPC LDT STT",
        "local": "LDL STL CCTLL",
        "shared": "LDS LDSM STS STSM ATOMS LDTM STTM UBLKRED_S STAS SYNCS REDAS",
        "constant": "LDC LDCU ULDC CCTLC",
        "texture": "TEX TEXS TLD TLD4 TLD4S TLDS TMML TXD TXQ TXA",
        "control": "BMOV BPT BRA BREAK BRK BRX BRXU BSSY BSYNC CAL CALL CONT EXIT ENDCOLLECTIVE IDE JCAL JMP JMX "
        "ACQBULK JMXU KILL LONGJMP NANOSLEEP PBK PCNT PEXIT PLONGJMP PRET RAM RET RPCMOV RTT SAM "
        "SETLMEMBASE GETLMEMBASE SSY SYNC WARPSYNC YIELD USETMAXREG USETSHMSZ UGETNEXTWORKID CGAERRBAR ELECT PREEXIT "
        "UCGABAR_ARV UCGABAR_WAIT SETCTAID SETMAXREG",
        "barrier": "ARRIVES B2R BAR DEPBAR ERRBAR MEMBAR R2B FENCE WARPGROUP WARPGROUPSET LDGBAR UMEMSETS",
        "nop": "NOP",
    }.items()
}

OF: dict[str, str] = {opcode: name for name, opcodes in CLASSES.items() for opcode in opcodes}

OTHER = "other"

_FLOATING = ("fp32", "fp64", "fp16", "sfu", "tensor")
_MEMORY = ("global", "generic", "texture")


def classes(opcodes: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Instructions by class, largest first."""
    found: dict[str, int] = {}
    for opcode, count in opcodes:
        name = OF.get(opcode, OTHER)
        found[name] = found.get(name, 0) + count
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def unknown(opcodes: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """The mnemonics that are in no class, by name."""
    return tuple(sorted(opcode for opcode, _ in opcodes if opcode not in OF))


def intensity(by_class: dict[str, int]) -> float | None:
    """Floating-point instructions per global, generic or texture instruction; ``None`` without any of the latter."""
    memory = sum(by_class.get(name, 0) for name in _MEMORY)
    return sum(by_class.get(name, 0) for name in _FLOATING) / memory if memory else None
