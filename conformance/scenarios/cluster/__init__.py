"""Scenarios of several brokers, on the embedded store and on a real ZooKeeper."""
