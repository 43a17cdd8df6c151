"""What comes in: one walk through inputs and archives to readers of logs, dumps, binaries and snapshots, and the join
of what they say of one kernel.

In: paths, streams of bytes. Out: one :class:`~spillscan.model.Build`, with an issue for whatever was not understood.
"""

PUBLIC = (
    "binary",
    "binary.containers",
    "binary.fetch",
    "binary.instructions",
    "binary.pressure",
    "binary.records",
    "binary.requests",
    "binary.size_accounting",
    "binary.window",
    "inputs.codecs",
    "inputs.ptx",
    "inputs.source",
    "join",
    "logs",
    "machine.accesses",
    "machine.held",
    "machine.lanes",
    "machine.liveness",
    "machine.sameness",
    "machine.spillmap",
    "pipeline",
    "readers",
    "workers",
)
"""What other packages may import from: these modules, and this one."""
