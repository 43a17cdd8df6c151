"""What the page of a kernel, and the calculator, draw: tables, figures and words, all computed here.

The page's script looks up and takes the least; it holds no occupancy rule of its own.
"""

ASSETS = ("lookup", "budget", "curves", "spillmap", "kernel")
"""Scripts and style sheets of these views, in the order of loading."""
