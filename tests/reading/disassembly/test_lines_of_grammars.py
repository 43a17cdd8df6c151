"""Expressions put together from a grammar match what Lark itself parses."""

from __future__ import annotations

import pytest
from lark import Lark, Token

from spillscan.reading import grammar

LINES = [
    b'        /*0220*/                   STL [R1+0x44], R3  (*"SpillRefill"*); /* 0x0000440301007387 */',
    b"        /*0070*/              @!P0 EXIT ;                                  /* 0x000000000000894d */",
    b"        /*0018*/                   S2R R2, SR_TID.X         }",
    b"        /*0010*/         {         MOV R6, RZ ;",
    b"        /*0730*/                   DEPBAR {2,0} ;              /* 0xf0f0000000070002 */",
    b'        /*0ef0*/                   BRX R8 -0xf00  (*"BRANCH_TARGETS .L_x_1,.L_x_2"*);',
    b"        /*10000*/                   @!UP0 UIADD3 UR11, UR4, URZ, URZ ;          /* 0x0000003f040b8290 */",
    b"        /*0230*/                   NOP;  /* 0x0000000000007918 */",
]


@pytest.mark.parametrize("line", LINES)
def test_instructions_equal_larks(line: bytes) -> None:
    match = grammar.line("instruction").match(line)
    assert match
    text = match[0].decode()
    tokens = {
        token.type.lower(): str(token)
        for token in grammar.load("sass").parse(text, start="instruction").children
        if isinstance(token, Token)
    }
    assert tokens == {name: value.decode() for name, value in match.groupdict().items() if value is not None}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("A [B] _C [D]", "(?P<a>a)(?:(?P<b>(?>b++)))?(?:c)(?:(?P<d>d))?"),
        ("A | B B", "(?:(?P<b>(?>b++))(?:(?>b++))|(?P<a>a))"),
    ],
)
def test_optional_terminals_and_alternatives(rule: str, expected: str) -> None:
    lark = Lark(f'start: {rule}\nA: "a"\nB: /b++/\n_C: "c"\nD: "d"', maybe_placeholders=False)
    assert grammar.RuleExpressions(lark).rule("start") == expected
