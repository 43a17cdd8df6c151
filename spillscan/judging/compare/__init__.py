"""Two builds held against each other: figures, residency, pairs of kernels, tables of several builds.

``figures`` holds two records of one kernel against each other: figures that both report and that differ, figures that
one alone reports (never equal, never different), and the order of damage. ``effects`` adds what that makes of
occupancy, by device, where the launch is known. ``pairing`` sorts all pairs into changes and unsettled ones,
``missing_kernels`` says which the newer build lacks without showing why. ``matrix`` lays several builds, or the archs
of one, side by side.
"""
