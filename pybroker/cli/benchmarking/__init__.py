"""What ``pybroker bench`` measures: ``measures`` has the figures, ``runs`` the work."""
