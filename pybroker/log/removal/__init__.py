"""Removes logs from a broker: ``removals`` deletes them, ``strays`` keeps those that no decision has deleted.

Start with ``removals.Removals.delete`` and ``strays.Strays.set_aside``. Other rooms decide why a log goes
(``pybroker.replication``, ``pybroker.cluster``). This room renames its folder durably, and handles what a start finds.
It imports the log, its dirs and files.
"""
