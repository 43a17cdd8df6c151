"""The device table: what one SM of each compute capability has, read from ``device_tables/*.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

from msgspec import Struct

from spillscan.output.errors import InputError, UsageError
from spillscan.output.folders import remember, remembered

FOLDER = Path(__file__).parent / "device_tables"
WARP_THREADS = 32

_TARGET = re.compile(r"(?:sm_|compute_|cc ?)?(\d{1,2})\.?(\d)([af]?)")
_STATUS = {"confirmed", "preliminary", "renamed"}
_BRANDS = {"nvidia", "geforce", "tesla", "quadro", "jetson", "gpu"}
_BOARDS = re.compile(r"\d+gb|pcie|sxm\d?|hbm\w*|nvl")


class Gpu(Struct, frozen=True, kw_only=True):
    """A product with this compute capability."""

    name: str
    """As the vendor writes it, without "NVIDIA"."""
    multiprocessors: int | None
    """SMs of the whole GPU; ``None`` where no source was found, or where boards of this name differ."""
    source: tuple[str, ...]
    """Keys of ``sources.yaml``."""


class Conflict(Struct, frozen=True, kw_only=True):
    """A source that gives another figure than the table."""

    figure: str
    """Field of :class:`Device`."""
    source: str
    """Key of ``sources.yaml``."""
    says: int
    """What that source says."""
    why: str
    """Why the table keeps its own."""


class Device(Struct, frozen=True, kw_only=True, dict=True):
    """What one SM of a compute capability has, and how it is handed out."""

    compute_capability: str
    """``9.0``"""
    architecture: str
    """``Hopper``"""
    chip: str | None
    """``GH100``; ``None`` where no source names it."""
    target: str
    """ptxas target without suffix, ``sm_90``."""
    status: str
    """``confirmed``, ``preliminary`` (no hardware seen) or ``renamed`` (another target is its later name)."""
    gpus: tuple[Gpu, ...]
    """Products, not a complete list."""
    max_threads_per_sm: int
    """Resident threads per SM."""
    max_threads_per_block: int
    """Threads per block."""
    max_blocks_per_sm: int
    """Resident blocks per SM."""
    registers_per_sm: int
    """32-bit registers per SM, over all sub-partitions."""
    registers_per_block: int
    """32-bit registers that one block may allocate."""
    max_registers_per_thread: int
    """What the instruction set can address."""
    register_alloc_unit: int
    """Registers; each warp's allocation is a multiple of it."""
    sub_partitions: int
    """Parts of the SM, each with its own share of registers and warps."""
    shared_bytes_per_sm: int
    """Shared memory per SM at the largest carve-out, bytes."""
    shared_bytes_per_block: int
    """Limit per block without opt-in, bytes, without the driver's reserve."""
    shared_bytes_per_block_optin: int
    """Limit per block for a kernel that opted in, bytes, without the driver's reserve."""
    shared_bytes_reserved_per_block: int
    """What the driver takes for itself in each block, bytes."""
    shared_alloc_unit: int
    """Bytes; each block's shared memory is a multiple of it."""
    carveout_steps_kb: tuple[int, ...]
    """Sizes that the shared memory of an SM can be set to, KB of 1,024 bytes, ascending."""
    barriers_per_block: int
    """Named barriers that one block may use."""
    barriers_per_sm: int | None
    """Named barriers per SM; ``None`` where no source knows. A limit from 9.0 on only."""
    partitioned_global_caching: bool
    """Whether a block can be held to half an SM for the sake of caching (5.x and 6.x)."""
    virtual_resources_per_sm: int | None
    """Virtual resources per SM; ``None`` before 10.0. Nothing public says how many a kernel uses."""
    clusters: bool
    """Whether thread block clusters exist."""
    sources: Mapping[str, tuple[str, ...]]
    """Keys of ``sources.yaml`` for each figure."""
    conflicts: tuple[Conflict, ...]
    """Sources that say otherwise."""
    notes: tuple[str, ...]
    """What a reader of the figures should know."""

    @cached_property
    def version(self) -> tuple[int, int]:
        """(major, minor) of the compute capability."""
        major, minor = self.compute_capability.split(".")
        return int(major), int(minor)

    @cached_property
    def max_warps_per_sm(self) -> int:
        """Resident warps per SM."""
        return self.max_threads_per_sm // WARP_THREADS

    @cached_property
    def checked_registers(self) -> int:
        """The largest register count a thread may have in the header's check: 255 before 7.0, 256 from then on.

        The instruction set addresses 255 registers (63 on 3.0).
        """
        return 255 if self.version < (7, 0) else 256

    @cached_property
    def shared_limit_per_block(self) -> int:
        """Most shared memory that one block may allocate without opt-in, bytes, with the driver's reserve."""
        return self.shared_bytes_per_block + (self.shared_bytes_reserved_per_block if self.version >= (8, 0) else 0)

    @cached_property
    def shared_limit_per_block_optin(self) -> int:
        """Likewise, for a kernel that opted in; before 7.0 there is no opt-in."""
        more = self.shared_bytes_per_block_optin - self.shared_bytes_per_block if self.version >= (7, 0) else 0
        return self.shared_limit_per_block + more

    @cached_property
    def limiting_barriers_per_sm(self) -> int:
        """Named barriers; 0 where they do not limit: before 9.0.

        Confirmed by residency on the H200, where the runtime takes the kernel's own count (ptxas: "used N barriers").
        """
        return (self.barriers_per_sm or 0) if self.version >= (9, 0) else 0

    @property
    def limiting_virtual_resources_per_sm(self) -> int:
        """Virtual resources; 0 where there are none. The converters of the header take a kernel to use none."""
        return self.virtual_resources_per_sm or 0

    @cached_property
    def held_to_61(self) -> bool:
        """Whether what could not run on 6.1 does not run on it either: 6.0."""
        return self.version == (6, 0)

    @property
    def carveout_steps(self) -> tuple[int, ...]:
        """Sizes that the shared memory of an SM can be set to, bytes, ascending."""
        return tuple(1024 * step for step in self.carveout_steps_kb)


_OWN = {
    "sources",
    "conflicts",
    "notes",
    "compute_capability",
    "architecture",
    "chip",
    "target",
    "status",
    "gpus",
}
FIGURES = tuple(name for name in Device.__struct_fields__ if name not in _OWN)
"""The fields of :class:`Device` that carry a source each."""
_MAY_BE_UNKNOWN = {"barriers_per_sm", "virtual_resources_per_sm"}
_TRUTH = {"partitioned_global_caching", "clusters"}


@cache
def sources() -> Mapping[str, str]:
    """Key of a source -> what it is."""
    return {str(key): str(text) for key, text in _load(FOLDER / "sources.yaml").items()}


@cache
def devices() -> tuple[Device, ...]:
    """Every device of the table, by compute capability."""
    found = [_read(path) for path in FOLDER.glob("sm_*.yaml")]
    return tuple(sorted(found, key=lambda device: device.version))


def device(name: str | float) -> Device:
    """The device called ``sm_90``, ``sm_90a``, ``9.0``, ``90`` or ``H100``.

    An unknown name raises :class:`~spillscan.UsageError` with the nearest known one; nothing is guessed.
    """
    return resolve(name)[0]


def resolve(name: str | float) -> tuple[Device, Gpu | None]:
    """Like :func:`device`, with the GPU where ``name`` is a product."""
    return _resolve(str(name))


@cache
def _resolve(name: str) -> tuple[Device, Gpu | None]:
    text = name.strip().lower()
    match = _TARGET.fullmatch(text)
    if match:
        return _by_version(name, int(match[1]), int(match[2]), match[3]), None
    wanted = _plain(text)
    names = {_plain(gpu.name): (found, gpu) for found in devices() for gpu in found.gpus}
    if wanted in names:
        return names[wanted]
    known = {plain: gpu.name for plain, (_, gpu) in names.items()}
    known |= {found.target: found.target for found in devices()}
    from difflib import get_close_matches

    near = get_close_matches(wanted, known, n=1, cutoff=0.4)
    hint = f"nearest known: {known[near[0]]}" if near else "try sm_90, 9.0 or H100"
    raise UsageError(f"unknown device {name!r}", f"{hint}; `spillscan devices` lists all")


def _by_version(name: str, major: int, minor: int, suffix: str) -> Device:
    path = FOLDER / f"sm_{major}{minor}.yaml"
    if not path.exists():
        here = 10 * major + minor
        near = min(devices(), key=lambda known: abs(10 * known.version[0] + known.version[1] - here))
        raise UsageError(
            f"unknown compute capability {major}.{minor} ({name})",
            f"nearest known: {near.target} ({near.compute_capability}); `spillscan devices` lists all",
        )
    if (suffix == "a" and major < 9) or (suffix == "f" and major < 10):
        since = "sm_90" if suffix == "a" else "sm_100"
        raise UsageError(f"unknown target {name!r}", f"targets with -{suffix} begin at {since}; try sm_{major}{minor}")
    return _read(path)


def _plain(name: str) -> str:
    words = re.findall(r"[a-z]+[0-9]*[a-z0-9]*|[0-9]+[a-z]*", name.lower())
    return "".join(word for word in words if word not in _BRANDS and not _BOARDS.fullmatch(word))


def _load(path: Path) -> dict[str, Any]:
    """One file of the table. To import YAML takes longer than most logs, so what it says is kept for the next run."""
    text = path.read_bytes()
    file = f"{path.stem}-{len(text)}-{crc32(text):08x}.json"
    data = remembered("devices", file)
    if data is None:
        import yaml

        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if not isinstance(data, dict):
            raise InputError(f"{path.name}: not a mapping")
        remember("devices", file, data)
    found: dict[str, Any] = data
    return found


@cache
def _read(path: Path) -> Device:
    return parse(_load(path), path.name)


def parse(data: Mapping[str, Any], name: str) -> Device:
    """Check one device file against the schema; :class:`~spillscan.InputError` names file and key."""

    def need(condition: bool, what: str) -> None:
        if not condition:
            raise InputError(f"{name}: {what}", "see the other device files")

    keys = {
        "compute_capability",
        "architecture",
        "chip",
        "target",
        "status",
        "gpus",
        "figures",
        "conflicts",
        "notes",
    }
    need(set(data) == keys, f"keys must be exactly {', '.join(sorted(keys))}")
    capability = data["compute_capability"]
    need(isinstance(capability, str) and re.fullmatch(r"\d+\.\d", capability) is not None, "compute_capability")
    need(data["target"] == "sm_" + capability.replace(".", ""), "target does not fit compute_capability")
    need(name == f"{data['target']}.yaml", "file name does not fit target")
    need(data["status"] in _STATUS, f"status must be one of {', '.join(sorted(_STATUS))}")
    figures = data["figures"]
    need(tuple(figures) == FIGURES, "figures must be, in this order: " + ", ".join(FIGURES))

    def known(keys: Any, where: str) -> tuple[str, ...]:
        need(isinstance(keys, list) and bool(keys), f"{where} has no source")
        for key in keys:
            need(key in sources(), f"{where}: unknown source {key!r}")
        return tuple(keys)

    values: dict[str, Any] = {}
    for figure, entry in figures.items():
        need(set(entry) == {"value", "source"}, f"{figure} needs value and source")
        value = entry["value"]
        if figure in _TRUTH:
            need(isinstance(value, bool), f"{figure} must be true or false")
        elif figure == "carveout_steps_kb":
            need(
                isinstance(value, list) and value == sorted(set(value)) and all(type(step) is int for step in value),
                f"{figure} must be ascending whole numbers",
            )
            value = tuple(value)
        else:
            unknown = value is None and figure in _MAY_BE_UNKNOWN
            need(unknown or (type(value) is int and value >= 0), f"{figure} must be a whole number")
        values[figure] = value
    for entry in data["gpus"]:
        need(
            set(entry) == {"name", "multiprocessors", "source"},
            "a GPU needs name, multiprocessors and source",
        )
        need(
            entry["multiprocessors"] is None or type(entry["multiprocessors"]) is int,
            f"SMs of {entry['name']}",
        )
    for entry in data["conflicts"]:
        need(set(entry) == {"figure", "source", "says", "why"}, "a conflict needs figure, source, says and why")
        need(entry["figure"] in FIGURES, f"conflict about unknown figure {entry['figure']}")
        known([entry["source"]], "conflict")
    need(
        max(values["carveout_steps_kb"]) * 1024 == values["shared_bytes_per_sm"],
        "largest step is not the whole",
    )
    return Device(
        compute_capability=capability,
        architecture=data["architecture"],
        chip=data["chip"],
        target=data["target"],
        status=data["status"],
        gpus=tuple(
            Gpu(
                name=gpu["name"],
                multiprocessors=gpu["multiprocessors"],
                source=known(gpu["source"], gpu["name"]),
            )
            for gpu in data["gpus"]
        ),
        sources={figure: known(entry["source"], figure) for figure, entry in figures.items()},
        conflicts=tuple(Conflict(**entry) for entry in data["conflicts"]),
        notes=tuple(data["notes"]),
        **values,
    )


# ---- which devices run code for an arch ------------------------------------------------------------------------------


def judged_on(arch: str | None, devices: Sequence[str]) -> tuple[str | None, ...]:
    """Those of ``devices`` that run code for ``arch``; without devices, or where the arch is not known, the arch."""
    if not devices or arch is None:
        return (arch,)
    return tuple(name for name in devices if runs_on(arch, name))


def runs_on(arch: str, name: str) -> bool:
    """Whether code for ``arch`` (``sm_80``, ``sm_90a``, ``sm_100f``) runs on the device ``name`` (``H100``, ``sm_86``).

    By the rules of the CUDA C++ Programming Guide (binary compatibility; architecture- and family-specific features):
    code runs within its major compute capability, from its own minor on; with ``a`` on its own compute capability only;
    with ``f`` within its family, which is the major but for 10.1, the former name of 11.0.

    An arch that no device is known of runs nowhere; an unknown device raises :class:`~spillscan.UsageError`.
    """
    there = resolve(name)[0].version
    try:
        here = device(arch).version
    except UsageError:
        return False
    if arch.endswith("a"):
        return here == there
    if arch.endswith("f") and (10, 1) in (here, there):
        return here == there
    return here[0] == there[0] and here[1] <= there[1]
