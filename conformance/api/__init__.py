"""Requests by hand, one API a file: what a broker answers to each, right and wrong, whatever client sends it.

Start with ``test_produce`` and ``test_fetch``. Requests are kafka-python's messages, sent by ``harness.wire_client``.
"""
