"""What is given to a command: files, folders, archives, streams, snapshots, builds of datasets."""
