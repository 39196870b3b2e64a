"""What a leader does for its followers. This room imports no module of ``following``.

Start with ``follower_fetches``, which answers their fetches. ``follower_session`` is one follower's fetch session.
``isr_proposals`` asks the controller to change the in-sync replicas. ``read_replica`` chooses the replica that a
consumer reads from.
"""
