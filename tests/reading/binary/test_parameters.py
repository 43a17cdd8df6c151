"""Parameters of templates are called what the host's debug information calls them, and nothing is guessed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from spillscan import scan
from spillscan.cli import main
from spillscan.reading.binary.parameters import MOST_ENTRIES, parameters
from spillscan.reading.binary.window import Window
from tests.reading.binary.support import stored

NAMED = {"attention": ("", "Causal", "Tile", "Paged"), "Divide": ("Fast", "Exact")}
HOSTS = ("flags-13.5.o", "flags-linked-13.5.so")


@pytest.mark.parametrize("name", HOSTS)
def test_what_the_host_compiler_wrote_names_parameters(name: str) -> None:
    assert parameters(Window(stored(name)))[0] == NAMED, "one that is left out or contradicted has no name"


@pytest.mark.parametrize("name", ["plain-13.5.o", "inlined-debug-sm_80-13.5.cubin", "linked-13.5.so"])
def test_without_debug_information_of_a_host_there_are_none(name: str) -> None:
    assert parameters(Window(stored(name)))[0] == {}


def test_tables_use_the_names_and_the_policy_goes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    path = tmp_path / "flags.o"
    path.write_bytes(stored(HOSTS[0]))
    assert main(["scan", str(path), "--all"]) == 0
    shown = capsys.readouterr().out
    assert "attention<float, Causal, 64, !Paged>" in shown
    assert "each<Divide<!Fast, !Exact>>" in shown
    assert "one::same<true>" in shown
    assert main(["scan", str(path), "--kernel", "attention<float, Causal, 64, !Paged>"]) == 0
    assert "1 kernel" in capsys.readouterr().out
    assert scan([str(path)]).parameters == NAMED


def test_so_many_entries_are_read_and_no_more() -> None:
    window = Window(stored(HOSTS[0]))
    _, left = parameters(window)
    assert 0 < left < MOST_ENTRIES
    assert parameters(window, 100) == ({}, 0)


def test_damaged_debug_information_is_as_if_there_were_none() -> None:
    chance = random.Random(20)
    start = time.process_time()
    for name in HOSTS:
        whole = stored(name)
        for _ in range(150):
            data = bytearray(whole)
            for _ in range(chance.randrange(1, 40)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            size = chance.choice((len(data), chance.randrange(len(data))))
            found, _ = parameters(Window(bytes(data[:size])))
            assert all(name.isprintable() for names in found.values() for name in names)
    assert time.process_time() - start < 20
