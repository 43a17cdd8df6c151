"""The device table: what one SM of each compute capability has, read from ``device_tables/*.yaml``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from typing import Annotated, Any, Literal, TypeVar
from zlib import crc32

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import replace

from spillscan.output.errors import InputError, UsageError
from spillscan.output.folders import remember, remembered

FOLDER = os.path.join(os.path.dirname(__file__), "device_tables")
WARP_THREADS = 32
_Type = TypeVar("_Type")

_TARGET = re.compile(r"(?:sm_|compute_|cc ?)?(\d{1,2})\.?(\d)([af]?)")
_BRANDS = {"nvidia", "geforce", "tesla", "quadro", "jetson", "gpu", "generation", "edition", "with", "design"}
_BOARDS = re.compile(r"\d+gb|pcie|sxm\d?|hbm\w*|nvl|laptop|mobile|max|q|workstation|server|agx")
"""Words for boards of one product, whose numbers of SMs differ."""
_NUMBER = re.compile(r"([a-z]*)(\d+)")
_GENERATIONS = re.compile(r"kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell")


Count = Annotated[int, Meta(ge=0)]
Keys = Annotated[tuple[str, ...], Meta(min_length=1)]
"""Of ``sources.yaml``."""


class Gpu(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A product with this compute capability."""

    name: str
    """As the vendor writes it, without "NVIDIA"."""
    multiprocessors: int | None
    """SMs of the whole GPU; ``None`` where no source was found, or where boards of this name differ."""
    source: Keys
    """Keys of ``sources.yaml``."""


class Conflict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source that gives another figure than the table."""

    figure: str
    """Field of :class:`Device`."""
    source: str
    """Key of ``sources.yaml``."""
    says: int
    """What that source says."""
    why: str
    """Why the table keeps its own."""


class Multiprocessor(Struct, frozen=True, kw_only=True):
    """What one SM has, and how it is handed out. Each figure bears a source in its device's file."""

    max_threads_per_sm: Count
    """Resident threads per SM."""
    max_threads_per_block: Count
    """Threads per block."""
    max_blocks_per_sm: Count
    """Resident blocks per SM."""
    registers_per_sm: Count
    """32-bit registers per SM, over all sub-partitions."""
    registers_per_block: Count
    """32-bit registers that one block may allocate."""
    max_registers_per_thread: Count
    """What the instruction set can address."""
    register_alloc_unit: Count
    """Registers; each warp's allocation is a multiple of it."""
    sub_partitions: Count
    """Parts of the SM, each with its own share of registers and warps."""
    shared_bytes_per_sm: Count
    """Shared memory per SM at the largest carve-out, bytes."""
    shared_bytes_per_block: Count
    """Limit per block without opt-in, bytes, without the driver's reserve."""
    shared_bytes_per_block_optin: Count
    """Limit per block for a kernel that opted in, bytes, without the driver's reserve."""
    shared_bytes_reserved_per_block: Count
    """What the driver takes for itself in each block, bytes."""
    shared_alloc_unit: Count
    """Bytes; each block's shared memory is a multiple of it."""
    carveout_steps_kb: tuple[Count, ...]
    """Sizes that the shared memory of an SM can be set to, KB of 1,024 bytes, ascending."""
    barriers_per_block: Count
    """Named barriers that one block may use."""
    barriers_per_sm: Count | None
    """Named barriers per SM; ``None`` where no source knows. A limit from 9.0 on only."""
    partitioned_global_caching: bool
    """Whether a block can be held to half an SM for the sake of caching (5.x and 6.x)."""
    virtual_resources_per_sm: Count | None
    """Virtual resources per SM; ``None`` before 10.0. Nothing public says how many a kernel uses."""
    clusters: bool
    """Whether thread block clusters exist."""


FIGURES = Multiprocessor.__struct_fields__
"""The fields of :class:`Device` that carry a source each."""


class Device(Multiprocessor, frozen=True, kw_only=True, dict=True, forbid_unknown_fields=True):
    """A compute capability: what one SM of it has, and who says so."""

    compute_capability: str
    """``9.0``"""
    architecture: str
    """``Hopper``"""
    chip: str | None
    """``GH100``; ``None`` where no source names it."""
    target: str
    """ptxas target without suffix, ``sm_90``."""
    status: Literal["confirmed", "preliminary", "renamed"]
    """``confirmed``, ``preliminary`` (no hardware seen) or ``renamed`` (another target is its later name)."""
    gpus: tuple[Gpu, ...]
    """Products, not a complete list."""
    sources: Mapping[str, Keys]
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


@cache
def sources() -> Mapping[str, str]:
    """Key of a source -> what it is."""
    return {str(key): str(text) for key, text in _load("sources.yaml").items()}


@cache
def devices() -> tuple[Device, ...]:
    """Every device of the table, by compute capability."""
    found = [_read(name) for name in os.listdir(FOLDER) if name.startswith("sm_")]
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
    names = {"".join(_words(gpu.name)): (found, gpu) for found in devices() for gpu in found.gpus}
    words = _words(text)
    wanted = "".join(word for word in words if not _BOARDS.fullmatch(word))
    if "".join(words) in names:
        return names["".join(words)]
    for known in (wanted, *([f"rtx{wanted}"] if wanted[:1].isalpha() else [])):  # A6000 is the RTX A6000
        if known in names:
            found, gpu = names[known]
            return found, replace(gpu, multiprocessors=None)
    near = _nearest(wanted, {plain: gpu.name for plain, (_, gpu) in names.items()})
    hint = f"nearest known: {near}" if near else "try sm_90, 9.0 or H100"
    raise UsageError(f"unknown device {name!r}", f"{hint}; `spillscan explain devices` lists all")


def is_device(name: str) -> bool:
    """Whether a word names a device, or is written like one (``sm_91``, ``RTX 4091``)."""
    try:
        return bool(resolve(name))
    except UsageError as error:
        return _TARGET.fullmatch(name.strip().lower()) is not None or "nearest known" in error.hint


def _nearest(wanted: str, known: Mapping[str, str]) -> str:
    """The most alike product of the same series, whose generation is the same; empty if there is none."""
    from difflib import get_close_matches

    series = _series(wanted)
    alike = [each for each in known if series and _series(each) == series]
    near = get_close_matches(wanted, alike, n=1, cutoff=0.4)
    return known[near[0]] if near else ""


def _series(plain: str) -> tuple[object, ...] | None:
    """What products of one generation have in common in their names: RTX 30.., RTX A..00, GTX 16.., P10., Ada."""
    match = _NUMBER.match(plain)
    if match is None:
        return None
    digits = match[2]
    first = digits[:2] if len(digits) == 4 else digits[:-1] or digits
    return match[1], len(digits), first, digits.endswith("00"), *_GENERATIONS.findall(plain)


def _by_version(name: str, major: int, minor: int, suffix: str) -> Device:
    file = f"sm_{major}{minor}.yaml"
    if not os.path.exists(os.path.join(FOLDER, file)):
        every = devices()
        same = [known for known in every if known.version[0] == major]
        near = min(same, key=lambda known: abs(known.version[1] - minor), default=None)
        span = f"known are {every[0].target} to {every[-1].target}"
        known = f"nearest known: {near.target} ({near.compute_capability})" if near else span
        raise UsageError(
            f"unknown compute capability {major}.{minor} ({name})", f"{known}; `spillscan explain devices` lists all"
        )
    if (suffix == "a" and major < 9) or (suffix == "f" and major < 10):
        since = "sm_90" if suffix == "a" else "sm_100"
        raise UsageError(f"unknown target {name!r}", f"targets with -{suffix} begin at {since}; try sm_{major}{minor}")
    return _read(file)


def _words(name: str) -> list[str]:
    found = re.findall(r"[a-z]+[0-9]*[a-z0-9]*|[0-9]+[a-z]*", name.lower())
    return [word for word in found if word not in _BRANDS]


def _load(name: str) -> dict[str, Any]:
    """One file of the table. To import YAML takes longer than most logs, so what it says is kept for the next run."""
    with open(os.path.join(FOLDER, name), "rb") as table:
        text = table.read()
    file = f"{name.removesuffix('.yaml')}-{len(text)}-{crc32(text):08x}.json"
    data = remembered("devices", file)
    if data is None:
        import yaml

        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if not isinstance(data, dict):
            raise InputError(f"{name}: not a mapping", "see the other device files")
        remember("devices", file, data)
    found: dict[str, Any] = data
    return found


@cache
def _read(name: str) -> Device:
    return parse(_load(name), name)


class _Sourced(Struct, forbid_unknown_fields=True):
    """A figure in a device's file."""

    value: Any
    """What it is; a field of :class:`Multiprocessor` says of which type."""
    source: Keys
    """Who says so."""


def parse(data: Mapping[str, Any], name: str) -> Device:
    """The device in the file ``name``, checked; :class:`~spillscan.InputError` names file and key."""

    def need(condition: bool, what: str) -> None:
        if not condition:
            raise InputError(f"{name}: {what}", "see the other device files")

    def checked(value: Any, kind: type[_Type], where: str) -> _Type:
        try:
            return convert(value, kind)
        except ValidationError as error:
            raise InputError(f"{name}: {where}: {error}", "see the other device files") from None

    need(isinstance(data.get("figures"), dict), "figures")
    figures = {key: checked(entry, _Sourced, key) for key, entry in data["figures"].items()}
    found = checked(
        {key: value for key, value in data.items() if key != "figures"}
        | {key: entry.value for key, entry in figures.items()}
        | {"sources": {key: entry.source for key, entry in figures.items()}},
        Device,
        "a device",
    )
    need(re.fullmatch(r"\d+\.\d", found.compute_capability) is not None, "compute_capability")
    need(found.target == "sm_" + found.compute_capability.replace(".", ""), "target does not fit compute_capability")
    need(name == f"{found.target}.yaml", "file name does not fit target")
    steps = found.carveout_steps_kb
    need(steps == tuple(sorted({*steps})), "carveout_steps_kb must be ascending")
    need(1024 * max(steps) == found.shared_bytes_per_sm, "largest step is not the whole")
    said = [*(gpu.source for gpu in found.gpus), *((conflict.source,) for conflict in found.conflicts)]
    for key in chain(*found.sources.values(), *said):
        need(key in sources(), f"unknown source {key!r}")
    for conflict in found.conflicts:
        need(conflict.figure in FIGURES, f"conflict about unknown figure {conflict.figure}")
    return found


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
