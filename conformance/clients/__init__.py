"""Clients and tools as processes of their own, against the broker under test: Kafka's Java tools, kcat.

Start with ``test_java_tools``. ``harness.peers`` fetches Kafka's jars; ``streams`` makes each client a pump for a file.
"""
