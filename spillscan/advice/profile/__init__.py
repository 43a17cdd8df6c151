"""What Nsight Compute measured, read from its CSV and held against a build.

A profile is no build record: it speaks of launches, not of compiled kernels, so it never enters a
:class:`Build`. ``reading`` makes a :class:`Profile` of a stream, ``matching``
finds the kernel of each launch, ``judged`` its occupancy and where profile and build contradict each other, ``verdict``
says in words what the published procedure makes of it, ``launchmap`` writes how kernels were launched. Only streams are
read here; pure else.
"""
