"""Which kernels each file holds as machine code: what is still to be linked or compiled, and stands beside it, is not
stated a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from spillscan.model.code import SassFunction
from spillscan.reading.binary.containers import Image, Intermediate
from spillscan.reading.binary.cubin import Cubin
from spillscan.reading.binary.window import Window


class KernelIndex:
    """What was read of each file, for what is read of it later."""

    def __init__(self) -> None:
        self._linked: WeakKeyDictionary[Window, dict[str, set[str]]] = WeakKeyDictionary()
        """Functions of linked code, by architecture."""
        self._kernels: WeakKeyDictionary[Window, dict[int, set[str]]] = WeakKeyDictionary()
        """Of each fat binary."""

    def add(self, image: Image, functions: Iterable[SassFunction]) -> None:
        """Remember the functions of a cubin."""
        if isinstance(image.stored, Window):
            return
        kernels = self._kernels.setdefault(image.file, {}).setdefault(image.stored.container, set())
        linked: dict[str, set[str]] = {} if image.relocatable else self._linked.setdefault(image.file, {})
        for each in functions:
            if each.role == "entry":
                kernels.add(each.symbol)
            linked.setdefault(each.arch or "", set()).add(each.symbol)

    def is_linked(self, image: Image, arch: str, cubin: Cubin) -> bool:
        """Whether what the device linker was given was linked: all of its kernels are there; without kernels, a
        function."""
        names = self._linked.get(image.file, {}).get(arch)
        if not names or not image.relocatable:
            return False
        functions = list(cubin.functions())
        kernels = [function.symbol for function in functions if function.role == "entry"]
        if kernels:
            return names.issuperset(kernels)
        return any(function.symbol in names for function in functions)

    def beside(self, module: Intermediate) -> tuple[str, ...] | None:
        """The kernels of machine code that a module stands beside, which are its own: which kernels a source has must
        not depend on the architecture (CUDA C++ Programming Guide, "__CUDA_ARCH__"). ``None`` where there is none."""
        if isinstance(module.stored, Window):
            return None
        kernels = self._kernels.get(module.file, {}).get(module.stored.container)
        return tuple(sorted(kernels)) if kernels else None
