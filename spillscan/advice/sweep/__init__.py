"""Kernels compiled by real ptxas at other register limits and launch bounds.

``settings`` defines what is tried, ``units`` what is compiled. ``compiling`` runs the steps of nvcc, ``ptx`` reads and
edits bounds in PTX. ``curves`` makes a curve per kernel, ``trials`` the tried fix of one, ``proposals`` explains why
there is none, and ``assembly`` compiles PTX contained in inputs.
"""
