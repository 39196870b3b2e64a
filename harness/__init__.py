"""The processes that tests start and talk to: brokers, clusters, ZooKeeper, JVMs, networks.

Start with ``servers/brokers`` (ours and the real one, with the same methods) and with ``protocol/wire_client`` (a bare
client). ``jvm`` and ``peers`` run Kafka's own programs. ``faults`` disturbs them; ``witnesses`` notes which clients
took part. Tests of every level may use this package. It imports nothing of ours.
"""
