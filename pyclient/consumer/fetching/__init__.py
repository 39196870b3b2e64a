"""Fetches ahead of ``poll``. Start with ``fetcher``, which keeps one request per broker in flight.

``buffer`` has the fetched records that were not taken, and ``held`` chooses which paused partitions lose their records.
``fetch_session`` builds requests. ``truncation`` and ``epoch_ends`` check whether the records that were read are still
in the leader's log (KIP-320).
"""
