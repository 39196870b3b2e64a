"""``pybroker demo [FILE]``: shows in ten seconds, with a broker and a real data set, what Kafka is used for.

A broker starts on a free port, with a temporary folder. A producer streams the data set to a topic of
four partitions, and a group of two consumers reads it meanwhile. A worker then copies some records to
a second topic, exactly once, though it fails in the middle of a transaction. At the end, latency is measured.
"""

from __future__ import annotations

from pybroker.cli.demo.command import demo

__all__ = ["demo"]
