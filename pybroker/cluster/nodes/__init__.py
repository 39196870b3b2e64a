"""Reads and writes the cluster's nodes in the store, and elects the controller there.

Start with ``loading`` (the whole image) and ``recording`` (a change and its journal entry, in one step).
``controller_election`` elects the controller, ``deletion_notes`` notes deleted topics. This room imports
``cluster/metadata``, ``cluster/decisions`` and the store's interface.
"""
