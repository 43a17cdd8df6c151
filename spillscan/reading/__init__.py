"""What comes in: one walk through inputs and archives to readers of logs, dumps, binaries and snapshots, and the join
of what they say of one kernel.

In: paths, streams of bytes. Out: one :class:`~spillscan.model.Build`, with an issue for whatever was not understood.
"""
