"""Words in Markdown: a name is one code span, whatever its angle brackets contain."""

from __future__ import annotations

import pytest

from spillscan.output.markdown import words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("12 kernels gone", "12 kernels gone"),
        ("gone (scale<half, 1, 0>, dot, …)", "gone (`scale<half, 1, 0>`, dot, …)"),
        ("of scale<pair<int, 2>, 3> now", "of `scale<pair<int, 2>, 3>` now"),
        ("a < b, and so on", "a `<` b, and so on"),
        ("old -> new, of f<int, 2>", "old `->` new, of `f<int, 2>`"),
        (
            "__launch_bounds__(256, 2) leaves 128; 3 → 2 blocks/SM",
            "`__launch_bounds__(256, 2)` leaves 128; 3 → 2 blocks/SM",
        ),
        ("2 kernels (sm_80, sm_90)", "2 kernels (`sm_80, sm_90`)"),
        ("gone: 1 (f<2> (sm_80)) of b; `x y -f a_b` drops it", "gone: 1 (`f<2> (sm_80)`) of b; `x y -f a_b` drops it"),
        ("`a_b`c_d", "`a_b` `c_d`"),
        ("one ` is none, a_b", "one `'` is none, `a_b`"),
        ("1. x", "`1`. x"),
        ("≤100%; __f__(1); --launch shows it (a_b; c_d)", "≤100%; `__f__(1)`; `--launch` shows it (`a_b`; `c_d`)"),
        ("as src/SM has it (an estimate)", "as `src/SM` has it (an estimate)"),
    ],
)
def test_words(text: str, shown: str) -> None:
    assert words(text) == shown
