"""Libraries of public wheels, in a shape that NVIDIA's tools of Linux can read."""

from __future__ import annotations

import mmap
import subprocess
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from spillscan.reading.binary import containers
from spillscan.reading.binary.cubin import Cubin
from spillscan.reading.binary.images import Image
from spillscan.reading.binary.window import DEFAULT, Budget, Window
from tests.oracle.toolchain import default_cache, download

from maker.opcodes import layout  # isort: skip
from maker.wheels import PUBLIC, WHEELS, WINDOWS  # isort: skip

PE_SECTION = ".nv_fatb"
"""Of a Windows file: what its loader hands to the driver."""


def wheel(requirement: str, platform: str = "linux", python: str = "3.11") -> Path:
    """A wheel, downloaded once; ``python``: whose."""
    return download(requirement, default_cache() / "wheels", platform, python)


def wheels(*, windows: bool) -> Iterator[tuple[Path, str]]:
    """Each wheel, and the pattern of its libraries."""
    for requirement, pattern in (WINDOWS if windows else WHEELS).items():
        yield wheel(requirement, "win_amd64" if windows else "linux"), pattern


def public() -> Iterator[tuple[Path, str]]:
    """The wheels of every age and system."""
    for requirement, python, platform in PUBLIC:
        yield wheel(requirement, platform, python), "*"


def libraries(file: Path, pattern: str, folder: Path) -> Iterator[Path]:
    """The libraries of a wheel, put where tools can read them, one at a time; any other file is itself one."""
    if file.suffix != ".whl":
        yield file
        return
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if Path(name).match(pattern) and archive.open(name).read(4).startswith((b"\x7fELF", b"MZ")):
                path = Path(archive.extract(name, folder))
                yield path
                path.unlink()


def readable(path: Path, folder: Path) -> Path:
    """Form of a library that cuobjdump reads: itself, or an ELF object with the fat binaries of a Windows file."""
    with path.open("rb") as file:
        if file.read(2) != b"MZ":
            return path
    plain = folder / "fatbin"
    subprocess.run(["objcopy", "-O", "binary", f"--only-section={PE_SECTION}", path, plain], check=True)
    made = folder / f"{path.stem}.o"
    subprocess.run(["as", "-o", made, "/dev/null"], check=True)
    add = [f"--add-section=.nv_fatbin={plain}", "--set-section-flags=.nv_fatbin=alloc,readonly"]
    subprocess.run(["objcopy", *add, made], check=True)
    return made


def holding(path: Path, codes: Collection[int]) -> set[int]:
    """Cubins of a library, by number, that contain one of some opcodes."""
    found = set()
    with path.open("rb") as file:
        library = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for number, image in enumerate(_images(library)):
            cubin = Cubin(image.plain())
            encoding = layout.of(cubin.number)
            for function in cubin.functions():
                if np.isin(encoding.codes_of(encoding.words(function.code)), list(codes)).any():
                    found.add(number)
                    break
    return found


def cubins(path: Path, members: set[int], folder: Path) -> Iterator[Path]:
    """Some cubins of a library, by their numbers in it (``SassFunction.member``); each is there until the next one."""
    with path.open("rb") as file:
        library = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for number, image in enumerate(_images(library)):
            if number in members:
                cubin = folder / f"{number}.cubin"
                plain = image.plain()
                cubin.write_bytes(plain.copy(0, plain.size, "cubin"))
                yield cubin
                cubin.unlink()


def _images(library: mmap.mmap) -> Iterator[Image]:
    found = containers.images(Window(library), Budget(DEFAULT, len(library)))
    return (image for image in found if isinstance(image, Image))
