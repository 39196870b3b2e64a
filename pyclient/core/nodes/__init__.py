"""A client's way to the brokers: addresses, connections, versions, and the requests that wait for them.

Start with ``node``, which is one broker. ``connection``, ``versions`` and ``addresses`` do no I/O and read no clock.
"""
