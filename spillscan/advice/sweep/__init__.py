"""Register-cap sweeps: what real ptxas makes of a kernel at each cap or launch bound, and what is best of it.

``model`` says what is asked for, ``toolkits`` finds ptxas and nvcc and runs them, ``command_line`` reads a compiler's
command line, ``ptx`` rewrites launch bounds, ``compilers`` compile, and keep what was compiled. From ``curves`` on all
is pure: it turns what was compiled into :class:`Curve`. ``timing`` runs the user's own program.
"""
