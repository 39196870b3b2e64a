"""Consumer groups and committed offsets: the shards of ``__consumer_offsets``.

Start with ``shard``: the groups of one partition. ``classic`` is a classic group, ``state`` its states; ``joining`` and
``syncing`` handle its members' requests. The KIP-848 protocol is in ``consumer``. Offsets are in ``offset_store``,
``committing`` and ``keeping``. A shard takes messages with a time, and returns records and replies.
"""
