"""Every opcode that NVIDIA publishes, and every one that real dumps hold, has one class."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.model.code import OPCODE_CLASSES, SassFunction, SassStats
from spillscan.reading import disassembly as sass
from tests.reading.disassembly.support import FIXTURES, content

PUBLISHED = """
ACQBULK ACQSHMINIT ATOM ATOMG ATOMS B2R BAR BFE BFI BGMMA BMMA BMOV BMSK BPT BRA BREAK BREV BRK BRX BRXU BSSY BSYNC CAL
CALL CCTL CCTLL CCTLT CGAERRBAR CONT CREDUX CS2R CS2UR CSET CSETP DADD DEPBAR DFMA DMMA DMNMX DMUL DSET DSETP ELECT
ENDCOLLECTIVE ERRBAR EXIT F2F F2I F2IP FADD FADD2 FADD32I FCHK FCMP FENCE FFMA FFMA2 FFMA32I FHADD FHFMA FLO FMNMX
FMNMX3 FMUL FMUL2 FMUL32I FRND FSEL FSET FSETP FSWZADD GETLMEMBASE HADD2 HADD2_32I HFMA2 HFMA2_32I HGMMA HMMA HMNMX2
HMUL2 HMUL2_32I HSET2 HSETP2 I2F I2FP I2I I2IP IABS IADD IADD3 IADD32I ICMP IDP IDP4A IGMMA IMAD IMADSP IMMA IMNMX IMUL
IMUL32I ISCADD ISCADD32I ISET ISETP JCAL JMP JMX JMXU KILL LD LDC LDCU LDG LDGDEPBAR LDGMC LDGSTS LDL LDS LDSM LDT LDTM
LEA LEPC LOP LOP3 LOP32I MATCH MEMBAR MOV MOV32I MOVM MUFU NANOSLEEP NOP OMMA P2R PBK PCNT PEXIT PLOP3 PMTRIG POPC
PREEXIT PRET PRMT PSET PSETP QADD4 QFMA4 QGMMA QMMA QMUL4 QSPC R2B R2P R2UR RED REDAS REDG REDUX RET RPCMOV RRO RTT S2R
S2UR SEL SETCTAID SETLMEMBASE SGXT SHF SHFL SHL SHR SSY ST STAS STG STL STS STSM STT STTM SUATOM SULD SURED SUST SYNC
SYNCS TEX TEXS TLD TLD4 TLD4S TLDS TMML TXD TXQ UBLKCP UBLKPF UBLKRED UBMSK UBREV UCGABAR_ARV UCGABAR_WAIT UCLEA UF2F
UF2FP UF2I UF2IP UFADD UFFMA UFLO UFMNMX UFMUL UFRND UFSEL UFSET UFSETP UGETNEXTWORKID UI2F UI2FP UI2I UI2IP UIABS
UIADD3 UIMAD UIMNMX UISETP ULDC ULEA ULEPC ULOP ULOP3 ULOP32I UMEMSETS UMOV UP2UR UPLOP3 UPOPC UPRMT UPSETP UR2UP UREDGR
USEL USETMAXREG USGXT USHF USHL USHR USTGR UTCATOMSWS UTCBAR UTCCP UTCHMMA UTCIMMA UTCOMMA UTCQMMA UTCSHIFT UTMACCTL
UTMACMDFLUSH UTMALDG UTMAPF UTMAREDG UTMASTG UVIADD UVIMNMX UVIRTCOUNT VABSDIFF VABSDIFF4 VHMNMX VIADD VIADDMNMX VIMNMX
VIMNMX3 VOTE VOTEU WARPGROUP WARPGROUPSET WARPSYNC XMAD YIELD
"""
"""The mnemonics of the tables in "CUDA Binary Utilities", Maxwell to Blackwell, together."""

INPUTS = sorted(
    path for path in FIXTURES.iterdir() if path.name.split("-")[0] in ("cuobjdump", "fatbin", "nvdisasm", "smem")
)


def stats(opcodes: list[tuple[str, int]]) -> SassStats:
    return SassStats(instructions=len(opcodes), code_bytes=0, opcodes=opcodes)


def test_published_opcodes_have_classes() -> None:
    assert stats([(opcode, 1) for opcode in PUBLISHED.split()]).unknown_opcodes == ()


def test_an_opcode_has_one_class() -> None:
    listed = [opcode for opcodes in OPCODE_CLASSES.values() for opcode in opcodes]
    assert sorted(listed) == sorted(set(listed))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_opcodes_of_real_disassembly_have_classes(path: Path) -> None:
    found = [item for item in sass.reader([content(path)], path.name) if isinstance(item, SassFunction)]
    assert found
    for function in found:
        assert function.stats.unknown_opcodes == ()
        assert sum(function.stats.opcode_classes.values()) == function.stats.instructions


def test_an_unknown_opcode_is_named() -> None:
    mix = stats([("FADD", 3), ("QUUX", 2), ("BLAH", 1)])
    assert mix.unknown_opcodes == ("BLAH", "QUUX")
    assert mix.opcode_classes == {"fp32": 3, "other": 3}
