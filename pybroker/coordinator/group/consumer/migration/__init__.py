"""Groups between the two protocols (``group.consumer.migration.policy``), and members of both in one group.

``upgrading`` and ``downgrading`` change a group's protocol. ``classic_members`` serves members of a consumer group that
speak the old one.
"""
