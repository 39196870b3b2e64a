"""Requests made by hand, one API a file: what a broker must answer to each, right or wrong.

Start with ``test_produce`` and ``test_fetch``. Requests are kafka-python's messages,
sent by ``harness.protocol.wire_client``.
"""
