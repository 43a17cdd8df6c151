"""The device table: schema, names, sources."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest
import yaml

from spillscan.occupancy.devices import (
    FOLDER,
    RESOURCES,
    _load,
    _nearest,
    _words,
    device,
    devices,
    parse,
    resolve,
    sources,
)
from spillscan.output.errors import InputError, UsageError


def test_each_file_is_a_device_and_each_value_has_a_source():
    assert [f"{one.target}.yaml" for one in devices()] == sorted(
        (path.name for path in Path(FOLDER).glob("sm_*.yaml")), key=lambda name: int(name[3:-5])
    )
    for one in devices():
        assert tuple(one.sources) == RESOURCES
        assert all(keys and set(keys) <= set(sources()) for keys in one.sources.values())


NAMES = {
    "sm_90": "sm_90 | sm_90a | H100 | NVIDIA H100 80GB HBM3 | h200 | H800 | H20",
    "sm_100": "sm_100f | 10.0 | B200",
    "sm_86": "compute_86 | 8.6 | 8.6 | NVIDIA A10G | NVIDIA RTX A5500 | RTX 3050 Ti | RTX 2050",
    "sm_120": "120 | RTX PRO 6000 | RTX 5050 | RTX PRO 4000 Blackwell",
    "sm_107": "10.7",
    "sm_80": "A100-SXM4-80GB | A800 | CMP 170HX",
    "sm_89": "L4 | RTX 4090 | NVIDIA GeForce RTX 4090 | RTX 4070 Ti SUPER | NVIDIA RTX 5000 Ada Generation | L20",
    "sm_75": "RTX 2080 SUPER | CMP 50HX | GTX 1660 SUPER | MX450 | T4G",
    "sm_61": "GTX 1070 Ti | Quadro P4000",
    "sm_110": "DRIVE Thor | Thor",
    "sm_87": "Orin",
    "sm_70": "Tesla V100",
    "sm_121": "DGX Spark",
}


@pytest.mark.parametrize("target", NAMES)
def test_names(target):
    assert {name: device(name).target for name in NAMES[target].split(" | ")} == dict.fromkeys(
        NAMES[target].split(" | "), target
    )
    assert (device(8.6).target, device(10.0).target) == ("sm_86", "sm_100")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("sm_91", "sm_90"),
        ("8.1", "sm_80"),
        ("13.0", "sm_121"),
        ("sm_80a", "sm_80"),
        ("sm_90f", "sm_90"),
        ("RTX 4091", "nearest known: GeForce RTX 4090"),
        ("RTX 5070 SUPER", "nearest known: GeForce RTX 5070"),
        ("CMP 55HX", "nearest known: CMP 50HX"),
        ("H20X", "nearest known: H20"),
        ("RTX 6000 Blackwell", "try sm_90"),  # neither the Quadro RTX 6000 nor the RTX 6000 Ada
        ("H300", "try sm_90"),
        ("GTX 2080", "try sm_90"),
        ("Tegra X3", "try sm_90"),
        ("K8", "try sm_90"),
        ("RTX 409", "try sm_90"),
        ("", "sm_90"),
    ],
)
def test_unknown_devices_are_refused_with_the_nearest_name(name, near):
    with pytest.raises(UsageError) as caught:
        device(name)
    assert near in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_nearest_product_is_of_the_same_generation():
    """Each product, if the table lacked it, would be offered none of another architecture."""
    exceptions = {"GeForce RTX 2050"}  # an Ampere among Turings: the table must have it
    for one in devices():
        for gpu in one.gpus:
            plain = "".join(_words(gpu.name))
            others = {"".join(_words(each.name)): each.name for known in devices() for each in known.gpus}
            del others[plain]
            near = _nearest(plain, others)
            assert not near or gpu.name in exceptions or device(near).architecture == one.architecture, near


@pytest.mark.parametrize(
    ("name", "target", "multiprocessors"),
    [
        ("H200", "sm_90", 132),
        ("Orin", "sm_87", None),  # 4, 8 or 16: boards of this name differ
        ("NVIDIA H100 PCIe", "sm_90", None),  # 114, not the 132 of an SXM board
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "sm_89", None),
        ("NVIDIA RTX 6000 Ada Generation", "sm_89", None),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "sm_120", None),
        ("GeForce GTX 1060 with Max-Q Design", "sm_61", None),
        ("A6000", "sm_86", None),
    ],
)
def test_boards_of_one_product_differ_in_multiprocessors(name, target, multiprocessors):
    found, gpu = resolve(name)
    assert (found.target, gpu.multiprocessors) == (target, multiprocessors)
    assert resolve("sm_90")[1] is None


def test_the_cached_table_equals_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = sorted(Path(FOLDER).glob("*.yaml"))
    said = [yaml.safe_load(path.read_bytes()) for path in files]
    assert [_load(path.name) for path in files] == said
    kept = list((tmp_path / "spillscan" / "devices").iterdir())
    assert len(kept) == len(files)
    with monkeypatch.context() as alone:
        alone.setitem(sys.modules, "yaml", None)
        again = [_load(path.name) for path in files]
        assert again == said
        assert list(map(repr, again)) == list(map(repr, said)), "keys in their order, numbers and truths as such"
        kept[0].write_bytes(kept[0].read_bytes().replace(b"sm_", b"sm-").replace(b"G", b"H"))
        with pytest.raises(ImportError):
            [_load(path.name) for path in files]
    assert [_load(path.name) for path in files] == said, "what was damaged is read anew"


def change(**changes):
    data = yaml.safe_load(Path(FOLDER, "sm_90.yaml").read_bytes())
    data = copy.deepcopy(data)
    for key, value in changes.items():
        if key in data["values"]:
            data["values"][key] = value
        else:
            data[key] = value
    return data


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"target": "sm_91"}, "target"),
        ({"status": "guessed"}, r"\$\.status"),
        ({"surprise": 1}, "unknown field `surprise`"),
        ({"registers_per_sm": {"value": 65536}}, "registers_per_sm: .* missing required field `source`"),
        ({"registers_per_sm": {"value": 65536, "source": []}}, r"registers_per_sm: .* length >= 1 - at `\$\.source`"),
        ({"registers_per_sm": {"value": 65536, "source": ["X"]}}, "unknown source 'X'"),
        (
            {"registers_per_sm": {"value": None, "source": ["N"]}},
            r"`int`, got `null` - at `\$\.registers_per_sm`",
        ),
        ({"registers_per_sm": {"value": -1, "source": ["N"]}}, r">= 0 - at `\$\.registers_per_sm`"),
        ({"gpus": [{"name": "H100"}]}, r"missing required field `multiprocessors` - at `\$\.gpus"),
        (
            {"gpus": [{"name": "H100", "multiprocessors": "132", "source": ["V"]}]},
            r"`str` - at .*gpus\[0\]\.multi",
        ),
        (
            {"gpus": [{"name": "H100", "multiprocessors": 132, "source": []}]},
            r">= 1 - at `\$\.gpus\[0\]\.source",
        ),
        ({"conflicts": [{"name": "clusters"}]}, r"missing required field `source` - at `\$\.conflicts"),
        ({"clusters": {"value": 1, "source": ["G"]}}, r"Expected `bool`, got `int` - at `\$\.clusters`"),
        ({"carveout_steps_kb": {"value": [8, 0], "source": ["H"]}}, "ascending"),
        ({"carveout_steps_kb": {"value": [0, 8], "source": ["H"]}}, "largest step"),
    ],
)
def test_schema(changes, says):
    with pytest.raises(InputError, match=says):
        parse(change(**changes), "sm_90.yaml")


def test_file_name():
    with pytest.raises(InputError, match="file name"):
        parse(change(), "sm_91.yaml")


def test_values_that_hold_everywhere():
    for one in devices():
        assert one.max_threads_per_sm == 32 * one.max_warps_per_sm
        assert one.registers_per_block <= one.registers_per_sm
        assert one.shared_bytes_per_block == 49152
        reserve = one.shared_bytes_reserved_per_block
        assert one.shared_bytes_per_block_optin + reserve <= one.shared_bytes_per_sm
        assert (reserve == 1024) == (one.version >= (8, 0))
        assert one.shared_alloc_unit == (128 if one.version >= (8, 0) else 256)
        assert one.clusters == (one.version >= (9, 0))


@pytest.mark.parametrize(
    ("target", "registers"), [("sm_61", 255), ("sm_62", 255), ("sm_70", 256), ("sm_75", 256), ("sm_90", 256)]
)
def test_registers_that_the_header_lets_a_thread_have(target, registers):
    assert device(target).checked_registers == registers
