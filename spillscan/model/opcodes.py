"""Opcodes by class: a table, and the sums over it.

By the headings and descriptions of NVIDIA's tables (CUDA Binary Utilities, "Instruction Set Reference", 11.8 to 13.1:
Maxwell and Pascal, Volta, Turing, Ampere and Ada, Hopper, Blackwell), which a test walks, and some more that real dumps
hold. An opcode that is not in the table is of class ``other``: it is counted and named, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable

CLASSES: dict[str, tuple[str, ...]] = {
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

OF: dict[str, str] = {opcode: name for name, opcodes in CLASSES.items() for opcode in opcodes}

OTHER = "other"


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
