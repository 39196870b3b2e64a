"""Faults under load: kills, power cuts, full disks, broken networks, damaged files; and checks of what is left.

Start with ``test_kill``, the short form of a campaign. ``campaigns`` draw faults from a seed, ``loads`` are the clients
and their histories, ``means`` do the harm. ``checkers`` compare the histories with what is there. ``trials`` are
scripts for one moment each. It imports ``drivers``, ``harness`` and ``data``.
"""
