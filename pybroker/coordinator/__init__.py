"""Coordinators: state machines whose durable state lives in the partitions of an internal topic.

Start with ``runtime``: it drives a shard for each partition that this broker leads, and changes it only by records
that it has written. ``groups`` and ``transactions`` are what handlers call; the state machines are ``group`` and
``txn``, which do no I/O and read no clock. It imports ``replication`` and what is below; it knows no socket.
"""
