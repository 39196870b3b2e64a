"""The processes that tests start and talk to: brokers, clusters, ZooKeeper, JVMs, networks.

Start with ``brokers`` (ours and the real one, with the same methods) and ``wire_client`` (a bare client). ``clusters``
and ``machines`` start several brokers, ``ensemble`` ZooKeeper, ``jvm`` and ``peers`` what is Kafka's own. ``proxy`` is
a network that loses; ``witnesses`` notes who took part. Tests of every floor may use it. It imports nothing of ours.
"""
