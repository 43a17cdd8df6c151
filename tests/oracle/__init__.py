"""Against what other people wrote: NVIDIA's own code, run beside ours. Long runs are scripts."""
