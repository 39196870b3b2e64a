"""``pybroker doctor``: ``command`` is the verb; ``machine``, ``settings``, ``cluster`` and ``secured`` return findings.

A finding says what was seen, why it matters and what to do. ``cli/reaching`` checks the way to a broker, step by step
from its name to its answer. The doctor only reads, and changes nothing.
"""
