"""The coordination store: a small tree of nodes that brokers share, with watches and sessions.

Start with ``interface``, which is all that other rooms use, and ``stores``, which opens a store: ``embedded`` (SQLite,
by ``tree``), ``remote`` (the supervisor's, served by ``server``) or ``zookeeper``. All three pass the same suite of
tests. This room imports no other room, and does not know what its nodes mean: ``cluster/metadata/znodes`` does.
"""
