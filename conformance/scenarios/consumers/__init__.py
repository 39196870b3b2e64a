"""What consumers do, alone and in groups: positions, settings, assignments, commits, both group protocols.

Start with ``test_consumer`` (one consumer) and ``test_groups``. ``test_group_clients`` runs the same groups with every
client of ``drivers``, ``test_consumer_protocol`` has what only KIP-848 offers. ``test_read_replica`` is about consumers
that read from a follower; with real followers it is in ``cluster``.
"""
