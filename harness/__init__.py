"""The brokers, clusters, ZooKeepers and JVMs that tests of every floor start and connect to.

Start with ``servers/brokers`` (ours and the real one, with the same methods) and ``protocol/wire_client`` (a bare
client). ``clients`` has other clients that tests drive; ``witnesses`` notes which took part. ``faults`` disturbs
connections and processes. ``peers`` fetches Kafka's jars and runs their programs, ``pythons`` finds Pythons.
``waiting`` has the waits of tests, and ``processes`` measures what a process uses. Of our code, it imports only
``pyclient.keywords``.
"""
