"""Causes and fixes of spills and low occupancy, tried settings, profiles, and the files that gate a repository.

From kernels, profiles and compile commands to ranked fixes, curves of settings, launches, policy files and CI jobs.
"""
