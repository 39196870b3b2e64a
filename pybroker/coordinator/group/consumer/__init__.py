"""Consumer groups of KIP-848: the coordinator assigns partitions, and members follow by epochs.

Start with ``group`` (one group) and ``heartbeating`` (what a heartbeat does). ``subscriptions`` has the topics that
members read, ``targeting`` computes the target assignment, ``reconciling`` moves each member towards it. ``timeouts``
removes late members, ``expecting`` sets their deadlines. ``records`` has the written records, ``migration`` changes a
group's protocol. This room imports the rest of ``coordinator/group``.
"""
