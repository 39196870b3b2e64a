"""The servers that tests start: brokers, clusters, ZooKeeper, PostgreSQL, an issuer of tokens.

Start with ``brokers``: ours and the real one, with the same methods. ``clusters`` starts several of ours under one
supervisor, ``machines`` as on machines of their own, ``kafka_cluster`` three real ones. ``guarded`` adds users and
ACLs. ``ensemble`` starts ZooKeeper.
"""
