"""What a follower does: it fetches from the leaders of its partitions, and truncates its logs where they diverge.

Start with ``fetchers``, which sends the requests to each leader. ``leader_session`` composes the requests to one leader
and handles its responses; ``follower`` is the state of one partition in it. ``throttled`` computes how long a throttled
replica waits.
"""
