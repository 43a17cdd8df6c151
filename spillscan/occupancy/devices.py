"""The device table: resources of an SM per compute capability, read from ``device_tables/*.yaml``."""

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
from spillscan.output.files import remember, remembered

FOLDER = os.path.join(os.path.dirname(__file__), "device_tables")
WARP_THREADS = 32
_Type = TypeVar("_Type")

_TARGET = re.compile(r"(?:sm_|compute_|cc ?)?(\d{1,2})\.?(\d)([af]?)")
_BRANDS = {"nvidia", "geforce", "tesla", "quadro", "jetson", "gpu", "generation", "edition", "with", "design"}
_BOARDS = re.compile(r"\d+gb|pcie|sxm\d?|hbm\w*|nvl|laptop|mobile|max|q|workstation|server|agx")
"""Words for boards of one product, which differ in their number of SMs."""
_NUMBER = re.compile(r"([a-z]*)(\d+)")
_GENERATIONS = re.compile(r"kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell")


Count = Annotated[int, Meta(ge=0)]
Keys = Annotated[tuple[str, ...], Meta(min_length=1)]
"""Keys of ``sources.yaml``."""


class Gpu(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A product with this compute capability."""

    name: str
    """Vendor's name, without "NVIDIA"."""
    multiprocessors: int | None
    """SMs of the whole GPU; ``None`` if no source was found, or if boards of this name differ."""
    source: Keys
    """Keys of ``sources.yaml``."""


class Conflict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source that contradicts the table."""

    name: str
    """Field of :class:`Device`."""
    source: str
    """Key of ``sources.yaml``."""
    says: int
    """The source's value."""
    why: str
    """Why the table keeps its own value."""


class Multiprocessor(Struct, frozen=True, kw_only=True):
    """Resources of one SM and their allocation rules. Each value has a source in its device's file."""

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
    """Most registers that an instruction can address."""
    register_alloc_unit: Count
    """Allocation granularity of registers per warp."""
    sub_partitions: Count
    """Partitions of the SM, each with its own share of registers and warps."""
    shared_bytes_per_sm: Count
    """Shared memory per SM at the largest carve-out, bytes."""
    shared_bytes_per_block: Count
    """Limit per block without opt-in, bytes, without the driver's reserve."""
    shared_bytes_per_block_optin: Count
    """Limit per block for a kernel that opted in, bytes, without the driver's reserve."""
    shared_bytes_reserved_per_block: Count
    """Shared memory that the driver reserves per block, bytes."""
    shared_alloc_unit: Count
    """Allocation granularity of shared memory per block, bytes."""
    carveout_steps_kb: tuple[Count, ...]
    """Possible sizes of an SM's shared memory, KB of 1,024 bytes, ascending."""
    barriers_per_block: Count
    """Named barriers that one block may use."""
    barriers_per_sm: Count | None
    """Named barriers per SM; ``None`` if unknown. Limits residency from 9.0 on only."""
    partitioned_global_caching: bool
    """Whether a block can be restricted to half an SM for caching (5.x and 6.x)."""
    virtual_resources_per_sm: Count | None
    """Virtual resources per SM; ``None`` before 10.0. No public source says how many a kernel uses."""
    clusters: bool
    """Whether thread block clusters exist."""


RESOURCES = Multiprocessor.__struct_fields__
"""Fields of :class:`Device` with a source each."""


class Device(Multiprocessor, frozen=True, kw_only=True, dict=True, forbid_unknown_fields=True):
    """A compute capability: resources of its SM, and their sources."""

    compute_capability: str
    """Such as ``9.0``."""
    architecture: str
    """Such as ``Hopper``."""
    chip: str | None
    """Such as ``GH100``; ``None`` if no source names it."""
    target: str
    """ptxas target without suffix, ``sm_90``."""
    status: Literal["confirmed", "preliminary", "renamed"]
    """``confirmed``, ``preliminary`` (no hardware seen) or ``renamed`` (another target is its later name)."""
    gpus: tuple[Gpu, ...]
    """Some products with this compute capability."""
    sources: Mapping[str, Keys]
    """Keys of ``sources.yaml`` per value."""
    conflicts: tuple[Conflict, ...]
    """Sources that contradict the table."""
    notes: tuple[str, ...]
    """Remarks for users of the values."""

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
        """Largest register count per thread that the header's check accepts: 255 before 7.0, 256 from then on.

        The instruction set addresses 255 registers (63 on 3.0).
        """
        return 255 if self.version < (7, 0) else 256

    @cached_property
    def shared_limit_per_block(self) -> int:
        """Most shared memory per block without opt-in, bytes, with the driver's reserve."""
        return self.shared_bytes_per_block + (self.shared_bytes_reserved_per_block if self.version >= (8, 0) else 0)

    @cached_property
    def shared_limit_per_block_optin(self) -> int:
        """Most shared memory per block with opt-in, bytes, with the driver's reserve; before 7.0 there is no opt-in."""
        more = self.shared_bytes_per_block_optin - self.shared_bytes_per_block if self.version >= (7, 0) else 0
        return self.shared_limit_per_block + more

    @cached_property
    def limiting_barriers_per_sm(self) -> int:
        """Named barriers per SM; 0 if they do not limit residency, as before 9.0.

        Confirmed by residency on the H200, where the runtime uses the kernel's own count (ptxas: "used N barriers").
        """
        return (self.barriers_per_sm or 0) if self.version >= (9, 0) else 0

    @property
    def limiting_virtual_resources_per_sm(self) -> int:
        """Virtual resources per SM; 0 if there are none. The header's converters assume that kernels use none."""
        return self.virtual_resources_per_sm or 0

    @cached_property
    def fits_as_6_1(self) -> bool:
        """Whether launches that do not fit 6.1 do not fit it either, as on 6.0."""
        return self.version == (6, 0)


@cache
def sources() -> Mapping[str, str]:
    """Description of each source, by key."""
    return {str(key): str(text) for key, text in _load("sources.yaml").items()}


@cache
def devices() -> tuple[Device, ...]:
    """All devices of the table, by compute capability."""
    table = [_read(name) for name in os.listdir(FOLDER) if name.startswith("sm_")]
    return tuple(sorted(table, key=lambda device: device.version))


def device(name: str | float) -> Device:
    """The device called ``sm_90``, ``sm_90a``, ``9.0``, ``90`` or ``H100``.

    An unknown name raises :class:`~spillscan.UsageError` with the nearest known one; nothing is guessed.
    """
    return resolve(name)[0]


def resolve(name: str | float) -> tuple[Device, Gpu | None]:
    """Like :func:`device`, with the GPU if ``name`` is a product."""
    return _resolve(str(name))


@cache
def _resolve(name: str) -> tuple[Device, Gpu | None]:
    text = name.strip().lower()
    match = _TARGET.fullmatch(text)
    if match:
        return _by_version(name, int(match[1]), int(match[2]), match[3]), None
    names = {"".join(_words(gpu.name)): (device, gpu) for device in devices() for gpu in device.gpus}
    words = _words(text)
    wanted = "".join(word for word in words if not _BOARDS.fullmatch(word))
    if "".join(words) in names:
        return names["".join(words)]
    for known in (wanted, *([f"rtx{wanted}"] if wanted[:1].isalpha() else [])):  # A6000 is the RTX A6000
        if known in names:
            device, gpu = names[known]
            return device, replace(gpu, multiprocessors=None)
    near = _nearest(wanted, {plain: gpu.name for plain, (_, gpu) in names.items()})
    hint = f"nearest known: {near}" if near else "try sm_90, 9.0 or H100"
    raise UsageError(f"unknown device {name!r}", f"{hint}; `spillscan explain devices` lists archs and GPUs")


def is_device(name: str) -> bool:
    """Whether a word names a device or has the form of one (``sm_91``, ``RTX 4091``)."""
    try:
        return bool(resolve(name))
    except UsageError as error:
        return _TARGET.fullmatch(name.strip().lower()) is not None or "nearest known" in error.hint


def _nearest(wanted: str, known: Mapping[str, str]) -> str:
    """Most similar product name of the same series and generation; empty if there is none."""
    from difflib import get_close_matches

    series = _series(wanted)
    alike = [each for each in known if series and _series(each) == series]
    near = get_close_matches(wanted, alike, n=1, cutoff=0.4)
    return known[near[0]] if near else ""


def _series(plain: str) -> tuple[object, ...] | None:
    """Key shared by product names of one generation: RTX 30.., RTX A..00, GTX 16.., P10., Ada."""
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
        span = f"known: {every[0].target} to {every[-1].target}"
        known = f"nearest known: {near.target} ({near.compute_capability})" if near else span
        raise UsageError(
            f"unknown compute capability {major}.{minor} ({name})", f"{known}; `spillscan explain devices` lists all"
        )
    if (suffix == "a" and major < 9) or (suffix == "f" and major < 10):
        since = "sm_90" if suffix == "a" else "sm_100"
        raise UsageError(f"unknown arch {name!r}", f"suffix '{suffix}' needs {since} or later; try sm_{major}{minor}")
    return _read(file)


def _words(name: str) -> list[str]:
    words = re.findall(r"[a-z]+[0-9]*[a-z0-9]*|[0-9]+[a-z]*", name.lower())
    return [word for word in words if word not in _BRANDS]


def _load(name: str) -> dict[str, Any]:
    """One file of the table. Cached as JSON for later runs, because importing YAML takes longer than reading most
    logs."""
    with open(os.path.join(FOLDER, name), "rb") as table:
        text = table.read()
    file = f"{name.removesuffix('.yaml')}-{len(text)}-{crc32(text):08x}.json"
    data = remembered("devices", file)
    if data is None:
        import yaml

        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if not isinstance(data, dict):
            raise InputError(f"{name}: not a mapping", "write it like the other device files")
        remember("devices", file, data)
    content: dict[str, Any] = data
    return content


@cache
def _read(name: str) -> Device:
    return parse(_load(name), name)


class _Sourced(Struct, forbid_unknown_fields=True):
    """A value in a device's file."""

    value: Any
    """The value; its field of :class:`Multiprocessor` defines its type."""
    source: Keys
    """Keys of ``sources.yaml``."""


def parse(data: Mapping[str, Any], name: str) -> Device:
    """Device of the file ``name``, validated. Raises :class:`~spillscan.InputError` that names file and key."""

    def need(condition: bool, what: str) -> None:
        if not condition:
            raise InputError(f"{name}: {what}", "write it like the other device files")

    def checked(value: Any, kind: type[_Type], where: str) -> _Type:
        try:
            return convert(value, kind)
        except ValidationError as error:
            raise InputError(f"{name}: {where}: {error}", "write it like the other device files") from None

    need(isinstance(data.get("values"), dict), "`values` is not a mapping")
    values = {key: checked(entry, _Sourced, key) for key, entry in data["values"].items()}
    device = checked(
        {key: value for key, value in data.items() if key != "values"}
        | {key: entry.value for key, entry in values.items()}
        | {"sources": {key: entry.source for key, entry in values.items()}},
        Device,
        "a device",
    )
    need(re.fullmatch(r"\d+\.\d", device.compute_capability) is not None, "`compute_capability` is not like 9.0")
    need(device.target == "sm_" + device.compute_capability.replace(".", ""), "target does not fit compute_capability")
    need(name == f"{device.target}.yaml", "file name does not fit target")
    steps = device.carveout_steps_kb
    need(steps == tuple(sorted({*steps})), "carveout_steps_kb must be ascending")
    need(1024 * max(steps) == device.shared_bytes_per_sm, "largest step is not the whole")
    cited = [*(gpu.source for gpu in device.gpus), *((conflict.source,) for conflict in device.conflicts)]
    for key in chain(*device.sources.values(), *cited):
        need(key in sources(), f"unknown source {key!r}")
    for conflict in device.conflicts:
        need(conflict.name in RESOURCES, f"conflict about unknown value {conflict.name}")
    return device


# ---- devices that run code for an arch ------------------------------------------------------------------------------


def applicable_devices(arch: str | None, devices: Sequence[str]) -> tuple[str | None, ...]:
    """Devices among ``devices`` that run code for ``arch``; the arch itself without devices, or if it is unknown."""
    if not devices or arch is None:
        return (arch,)
    return tuple(name for name in devices if runs_on(arch, name))


def runs_on(arch: str, name: str) -> bool:
    """Whether code for ``arch`` (``sm_80``, ``sm_90a``, ``sm_100f``) runs on the device ``name`` (``H100``, ``sm_86``).

    Follows the CUDA C++ Programming Guide (binary compatibility; architecture- and family-specific features). Code runs
    on its own minor compute capability and later ones of the same major. With ``a`` it runs only on its own compute
    capability. With ``f`` it runs within its family, which is the major, except for 10.1, the former name of 11.0.

    An arch without a known device runs nowhere. An unknown device raises :class:`~spillscan.UsageError`.
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
