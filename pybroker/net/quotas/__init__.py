"""Delays connections to enforce quotas. Start with ``quota_follower``: it applies the metadata's quotas to a server.

``throttling`` delays clients that exceed their quotas, ``arrival_limits`` delays clients that connect too often. A
broker without quotas imports only ``quota_follower``. The quotas themselves are in ``pybroker.quotas``.
"""
