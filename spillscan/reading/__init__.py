"""Reading of inputs: walk through files and archives, readers of logs, disassembly, binaries and snapshots, and the
join of records of one kernel.

From paths or streams of bytes to one :class:`~spillscan.model.Build`, with an issue for anything not understood.
"""
