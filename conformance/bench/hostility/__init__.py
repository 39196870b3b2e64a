"""Hostile requests beside a well-behaved client: ``python -m conformance.bench.hostility``.

``requests`` makes them byte by byte, ``neighbour`` is the client that must not notice, ``__main__`` the measurement.
"""
