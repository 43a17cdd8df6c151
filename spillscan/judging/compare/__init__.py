"""Comparison of builds: metrics, residency, pairs of kernels, tables of several builds.

``metrics`` compares two records of one kernel: metrics that both report and that differ, metrics that only one reports
(neither equal nor different), and the order by damage. ``effects`` adds the effect on occupancy per device, if the
launch is known. ``pairing`` sorts all pairs into changes and unsettled ones; ``missing_kernels`` finds kernels that the
newer build lacks for no visible reason. ``matrix`` shows several builds, or the archs of one, side by side.
"""
