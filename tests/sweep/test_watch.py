"""The line that a person sees while compilers run."""

from __future__ import annotations

import io

from spillscan.sweep.watch import Watch


def test_it_is_patient_and_leaves_nothing_behind() -> None:
    now = [0.0]
    terminal = io.StringIO()
    watch = Watch(terminal, lambda: now[0])
    watch.tell(1, 4, "a.cu")
    watch.erase()
    assert terminal.getvalue() == ""
    now[0] = 2.0
    watch.tell(2, 4, "a\x1b[2J.cu")
    assert "[############............] 2/4 a\N{REPLACEMENT CHARACTER}[2J.cu" in terminal.getvalue()
    watch.erase()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_without_a_terminal_nothing_is_said() -> None:
    watch = Watch(None, lambda: 100.0)
    watch.tell(1, 2, "a")
    watch.erase()
