"""Two builds held against each other: figures, residency, pairs of kernels, tables of several builds."""
