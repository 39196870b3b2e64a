"""The clients that tests drive, none of which is our SDK.

``librdkafka`` has producers and consumers in one line each, ``jvm`` Kafka's Java clients and tools in a warm JVM.
``members`` is a group member, one request at a time. ``command_line`` runs the ``pybroker`` command as a user types it.
A bare client is in ``harness/protocol``.
"""
