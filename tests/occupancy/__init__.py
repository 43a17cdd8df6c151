"""Occupancy: model, table, devices, commands, and the published examples."""
