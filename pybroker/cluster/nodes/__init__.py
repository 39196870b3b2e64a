"""The cluster's nodes in the store: reads and writes them, and takes the lead of the controller there.

Start with ``loading`` (the whole image) and ``recording`` (a change and its entry in the journal, in one step).
``leadership`` elects the controller, ``deletions`` notes what was deleted. It imports ``cluster/metadata``,
``cluster/decisions`` and the store's interface.
"""
