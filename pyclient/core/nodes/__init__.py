"""A client's connections to brokers: addresses, connections, versions, and requests that wait.

Start with ``node``, which is one broker. ``connection``, ``versions`` and ``addresses`` do no I/O and read no clock.
"""
