"""What goes wrong in a history: crashes, networks that break, disks that fail, strangers in the store.

Start with ``faults``, which draws them; each kind has a file. ``surroundings`` is what a fault finds around it. It
imports ``machines`` and ``oracle``.
"""
