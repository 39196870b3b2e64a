"""The bytes of the protocol: recorded conversations of real clients with a real Kafka, and frames that are broken.

Start with ``test_golden``. ``record`` renews the conversations; their format is ``harness.protocol.golden_frames``. It
imports ``harness``.
"""
