"""``pybroker log``: looks at a log's files. ``command`` is the verb; ``strays`` are logs that belong to no topic.

It reads files with the broker's own readers, without a broker. Only ``log dirs`` asks one. ``strays`` finds the folders
of brokers, shows what it would adopt or remove, and does so with ``--execute``.
"""
