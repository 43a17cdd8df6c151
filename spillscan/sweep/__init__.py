"""Register-cap sweeps: what real ptxas makes of a kernel at each cap or launch bound, and what is best of it.

``settings`` says what is asked for, ``toolkits`` finds ptxas and nvcc, ``commands`` reads a compiler's command line,
``ptx`` rewrites launch bounds, ``frontend`` and ``jobs`` compile, ``cache`` keeps what was compiled. From ``reading``
on all is pure: ``results.curves`` turns outcomes into :class:`~spillscan.sweep.model.Curve`.
"""
