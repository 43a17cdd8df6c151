"""Kept results: what is damaged is not there."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from spillscan.advice.sweep.front_end import Cache, key
from spillscan.output.folders import kept


def test_pieces_come_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new")
    name = key("a", b"b")
    assert cache.get(name) is None
    cache.put(name, b"1:x", b"", b"\x00" * 1000)
    assert cache.get(name) == (b"1:x", b"", b"\x00" * 1000)
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]


def test_any_damage_is_seen(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    name = key("a")
    cache.put(name, b"log", b"cubin" * 50)
    file = next(path for path in tmp_path.rglob("*") if path.is_file())
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cache.get(name) is None, at
        file.write_bytes(whole[:at])
        assert cache.get(name) is None, at


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_keys_do_not_run_together(one: list[bytes], other: list[bytes]) -> None:
    assert (key(*one) == key(*other)) == (one == other)


def test_no_folder_keeps_nothing_and_a_full_one_does_no_harm(tmp_path: Path) -> None:
    Cache(None).put("aa", b"x")
    assert Cache(None).get("aa") is None
    file = tmp_path / "file"
    file.touch()
    Cache(file / "below").put("aa", b"x")
    assert Cache(file / "below").get("aa") is None


def test_it_lies_where_xdg_says(monkeypatch: object, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # type: ignore[attr-defined]
    assert kept("sweep") == str(tmp_path / "spillscan" / "sweep")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # type: ignore[attr-defined]
    assert kept("sweep") == str(Path.home() / ".cache" / "spillscan" / "sweep")
