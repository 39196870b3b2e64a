"""Consumer groups and committed offsets: the shards of ``__consumer_offsets``.

Start with ``shard``: the groups of one partition. ``classic`` is a classic group, ``state`` its phases, ``joining`` and
``syncing`` what its members ask; the new protocol is ``consumer``. Offsets are in ``offset_store``, ``committing`` and
``keeping``. Requests come in as messages with a time; records and replies come out.
"""
