"""What quotas do to connections. Start with ``quota_follower``, which applies the quotas of the metadata to a server.

``throttling`` delays clients that exceed their quotas, ``arrival_limits`` those that connect too often. A broker
without quotas imports only ``quota_follower``. The quotas themselves are in ``pybroker.quotas``.
"""
