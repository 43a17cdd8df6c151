"""Causes and fixes of spills and low occupancy, tried settings, profiles, and the files that gate a repository.

In: kernels, profiles, compile commands. Out: ranked fixes, curves of settings, launches, texts of policies and jobs.
"""
