"""What tests of every floor start and talk to: brokers, clusters, ZooKeeper, JVMs.

Start with ``servers/brokers`` (ours and the real one, with the same methods) and ``protocol/wire_client`` (a bare
client). ``clients`` has other clients that tests drive; ``witnesses`` notes which took part. ``faults`` has what
disturbs connections and processes. ``peers`` fetches Kafka's jars and runs their programs, ``pythons`` finds Pythons.
``waiting`` says how a test waits, ``processes`` what a process uses. Of ours it imports ``pyclient.keywords`` only.
"""
