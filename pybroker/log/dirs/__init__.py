"""Log dirs: the folders in them and their states, logs that move, are removed, or belong to nobody."""
