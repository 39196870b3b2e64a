"""``pybroker bench``: ``command`` is the verb, ``runs`` the work, ``measures`` has the figures.

Start with ``runs``. It uses the client's public names, as any application does. Kafka's scripts for benchmarks
(``cli/kafka``) use ``runs`` too.
"""
