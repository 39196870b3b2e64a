"""Migration between the two protocols (``group.consumer.migration.policy``), and groups with members of both.

``upgrading`` and ``downgrading`` change a group's protocol. ``classic_members`` serves the classic members of a
consumer group.
"""
