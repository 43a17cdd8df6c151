"""Launches that Nsight Compute measured, read from its CSV and matched with the kernels of a build.

``launches`` reads the CSV, ``matching`` finds the kernel of each launch and what contradicts it, ``table`` prints both,
and ``policy`` writes the block sizes as a policy file.
"""
