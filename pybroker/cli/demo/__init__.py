"""``pybroker demo [FILE]``: a broker, a real data set, and all that Kafka is for, in ten seconds.

A broker starts on a free port, with a temporary folder. A producer streams the data set to a topic of
four partitions, and a group of two consumers reads it meanwhile. A worker then copies what is of interest to
a second topic, exactly once, though it fails in the middle of a transaction. At the end: latency.
"""

from __future__ import annotations

from pybroker.cli.demo.command import demo

__all__ = ["demo"]
