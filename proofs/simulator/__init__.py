"""Whole clusters in virtual time: one seed is one history, and the same seed is the same history again.

Start with ``world``: one history from its first broker to the last check. ``machines`` are what production code runs
on, ``clients`` and ``faults`` what happens to it, ``oracle`` what must hold; ``settings`` draws all that from a seed.
``python -m proofs.simulator --seeds 0-999`` runs histories. It imports the broker's rooms, and replaces their clocks,
disks, networks and stores.
"""
