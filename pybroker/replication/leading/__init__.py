"""What a leader does for its followers. It imports no module of ``following``.

Start with ``follower_fetches``, which answers them. ``follower_session`` is one follower's fetch session, and
``isr_proposals`` asks the controller for the in-sync replicas. ``read_replica`` says from which replica a consumer
reads.
"""
