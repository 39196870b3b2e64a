"""Benchmarks: our broker and a real Kafka side by side, and our client beside librdkafka and Java's.

Start with ``__main__``: ``python -m conformance.bench`` runs the suites and renews docs/benchmarks.md. In ``workers``
each client library has a file; ``scale`` shows how costs grow with partitions, ``hostility`` sends hostile requests.
A timing is never a test.
"""
