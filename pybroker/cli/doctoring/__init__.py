"""What ``pybroker doctor`` looks at: ``machine``, ``settings``, ``network``, ``cluster``; each tells ``Finding``s.

Start with ``finding``: what was seen, why it matters and what to do. ``asking`` is how a broker is asked, step by step
from its name to an answer. It changes nothing that it looks at.
"""
