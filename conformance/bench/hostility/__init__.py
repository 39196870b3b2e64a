"""Hostile requests beside a well-behaved client: ``python -m conformance.bench.hostility``.

``requests`` builds them byte by byte, ``neighbour`` is the client that must not notice, and ``__main__`` measures.
"""
