"""Offsets of a consumer: where it begins to read, and what it commits.

Start with ``positions``, which finds where reading begins: ``committed`` asks the coordinator, ``list_offsets`` the
leaders. ``commits`` decides what is committed, by the application or by ``commit_timer``, and ``committed`` sends it.
How far the consumer has read is in ``consumer/subscription``. All of it runs on the client's loop.
"""
