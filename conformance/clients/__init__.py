"""Runs clients and tools in their own processes against the broker under test: Kafka's Java tools, kcat.

Start with ``test_java_tools``. ``harness.peers`` fetches Kafka's jars. ``streams`` makes each client copy a file into a
topic, or a topic into a file.
"""
