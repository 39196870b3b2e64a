"""What a follower does: it fetches from the leaders of its partitions, and cuts its logs to be theirs.

Start with ``fetchers``, which asks each leader. ``leader_session`` has what is asked of one leader and what its answers
mean, ``follower`` one partition's state in it. ``throttled`` says how long a replica waits for its budget.
"""
