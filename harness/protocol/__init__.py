"""The protocol byte by byte: a bare client, the protocol's numbers, messages, and frames of real clients.

Start with ``wire_client``. It logs in as the user of ``entrance``, if there is one. ``error_codes`` and ``kinds`` name
numbers; ``messages`` has the schemas that kafka-python lacks. ``golden_frames`` reads ``golden/``: what real clients
said to a real Kafka.
"""
