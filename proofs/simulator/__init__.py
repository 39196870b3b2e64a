"""Simulates whole clusters in virtual time. One seed is one history, and the same seed gives the same history again.

Start with ``world``: one history from its first broker to the last check. Production code runs on ``machines``;
``clients`` and ``faults`` act on it, and ``oracle`` checks what must hold. ``settings`` draws all that from a seed.
``python -m proofs.simulator --seeds 0-999`` runs histories.

The package imports the broker's rooms, and replaces their clocks, disks, networks and stores.
"""
