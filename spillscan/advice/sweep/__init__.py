"""Kernels compiled by real ptxas at other register limits and launch bounds.

``settings`` names what is tried, ``units`` what is compiled, ``compiling`` runs the steps of nvcc, ``ptx`` reads and
edits bounds in PTX, ``curves`` makes a curve of each kernel, ``trials`` the tried fix of one, ``proposals`` says why
there is none, and ``assembly`` compiles the PTX that inputs contain.
"""
