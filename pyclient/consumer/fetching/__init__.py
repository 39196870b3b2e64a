"""Fetching ahead of ``poll``. Start with ``fetcher``, which keeps one request per broker in flight.

``buffer`` has what was fetched and not taken, ``held`` says which paused partitions lose their records.
``fetch_session`` has what a request says. ``truncation`` and ``epoch_ends`` find out whether what was read is still in
the leader's log (KIP-320).
"""
