"""``pybroker doctor``: ``command`` is the verb; ``machine``, ``settings``, ``cluster`` and ``secured`` return findings.

A finding says what was seen, why it matters and what to do. How the way to a broker is checked, step by step from its
name to its answer, is in ``cli/reaching``. The doctor changes nothing that it looks at.
"""
