"""Removes logs from a broker: ``removals`` deletes them, ``strays`` keeps those that no decision has deleted.

Start with ``removals.Removals.delete`` and ``strays.Strays.set_aside``. Other rooms decide which logs are removed
(``pybroker.replication``, ``pybroker.cluster``). This room renames their folders durably, and handles the renamed
folders that a start finds. It imports the log, its dirs and files.
"""
