"""Fetching ahead of ``poll``. Start with ``fetcher``, which keeps one request per broker in flight.

``fetch_session`` has what a request says, ``held`` which paused partitions lose their records. ``truncation`` and
``epoch_ends`` find out whether what was read is still in the leader's log (KIP-320).
"""
