"""Read ptxas build logs, SASS disassembly and binaries into per-kernel records.

``scan(paths)`` reads inputs into a :class:`~spillscan.model.Build`; ``diff(base, head)`` compares two builds;
``occupancy(arch, registers=…, threads_per_block=…)`` computes a kernel's occupancy; ``open_dataset(root)`` opens stored
builds; ``assert_no_spills(paths)`` is for tests. ``docs/python.md`` lists the stable names. Everything is imported on
first use, so that ``import spillscan`` costs almost nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # importing `typing` takes as long as importing all of this package
if TYPE_CHECKING:
    from spillscan.history.dataset import open_dataset
    from spillscan.judging.compare.pairing import diff
    from spillscan.library import assert_no_spills, scan
    from spillscan.model import Build, Change, Changes, Finding, Issue, Kernel, KernelKey, Usage
    from spillscan.occupancy import Launch, Occupancy, occupancy
    from spillscan.output.errors import InputError, SpillscanError, UsageError

__version__ = "0.1.0"

_HOMES = {
    "Build": "model",
    "Change": "model",
    "Changes": "model",
    "Finding": "model",
    "InputError": "output.errors",
    "Issue": "model",
    "Kernel": "model",
    "KernelKey": "model",
    "Launch": "occupancy",
    "Occupancy": "occupancy",
    "SpillscanError": "output.errors",
    "Usage": "model",
    "UsageError": "output.errors",
    "assert_no_spills": "library",
    "diff": "judging.compare.pairing",
    "occupancy": "occupancy",
    "open_dataset": "history.dataset",
    "scan": "library",
}

__all__ = [
    "Build",
    "Change",
    "Changes",
    "Finding",
    "InputError",
    "Issue",
    "Kernel",
    "KernelKey",
    "Launch",
    "Occupancy",
    "SpillscanError",
    "Usage",
    "UsageError",
    "assert_no_spills",
    "diff",
    "occupancy",
    "open_dataset",
    "scan",
]


def __getattr__(name: str) -> object:
    """Import a public name from its home module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'spillscan' has no attribute {name!r}")
    value = getattr(import_module(f"spillscan.{_HOMES[name]}"), name)
    globals()[name] = value  # a later lookup, and a submodule of the same name, finds the function
    return value
