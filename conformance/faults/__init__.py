"""Faults under load: kills, power cuts, full disks, broken networks, damaged files; and who counts afterwards.

Start with ``test_kill``, the short form of a campaign. ``campaigns`` draw faults from a seed, ``loads`` are the clients
and their histories, ``means`` do the harm, ``checkers`` compare what was told with what is there; ``trials`` are
scripts for one moment each. It imports ``drivers``, ``harness`` and ``data``.
"""
