"""``pybroker log``: looks at a log's files. ``command`` is the verb; ``strays`` are logs that belong to no topic.

It reads files with the broker's own readers, without a broker. Only ``log dirs`` asks a broker. ``strays`` finds the
folders of brokers, shows what it would adopt or remove, and adopts or removes it with ``--execute``.
"""
