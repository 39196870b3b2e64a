"""The group and transaction coordinators: state machines whose durable state is in the partitions of an internal topic.

Start with ``runtime``. It runs a shard for each partition that this broker leads, and changes a shard only by replaying
records that it has written. Handlers call ``groups`` and ``transactions``. The state machines are in ``group`` and
``txn``; they do no I/O and read no clock. This room imports ``replication`` and what is below; it knows no sockets.
"""
