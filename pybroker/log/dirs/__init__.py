"""Log dirs: the folders in them and their states, logs that are removed or belong to nobody."""
