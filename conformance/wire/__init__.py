"""The bytes of the protocol: recorded conversations of real clients with a real Kafka, and frames that are broken.

Start with ``golden_frames``: the format of the files in ``golden``, which ``record`` renews. ``messages`` describes by
hand what kafka-python does not know. It imports ``harness``.
"""
