"""Logs that lose their names: ``removals`` deletes those that a decision has ended, ``strays`` keeps all others.

Start with ``removals.Removals.delete`` and ``strays.Strays.set_aside``. Why a log goes is decided elsewhere
(``pybroker.replication``, ``pybroker.cluster``); here is how its folder is renamed, durably, and what a start finds.
It imports the log, its dirs and files.
"""
