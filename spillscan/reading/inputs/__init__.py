"""Inputs of a command: files, folders, archives, streams, snapshots, builds of datasets."""
