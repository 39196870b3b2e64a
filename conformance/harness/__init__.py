"""What tests start and talk to: brokers, clusters, ZooKeeper, JVMs, networks; as processes, by the wire."""
