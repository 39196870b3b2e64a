"""What goes wrong in a history: crashes, networks that break, disks that fail, strangers in the store.

Start with ``faults``, which draws them. Each kind has a file. ``surroundings`` is the cluster as a fault sees it. This
room imports ``machines`` and ``oracle``.
"""
