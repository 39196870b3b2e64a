"""What several handlers share: the call, turns for long requests, forwarding, admission to a transaction.

Start with ``call``, the broker and the connection as a handler sees them. ``pacing`` and ``turns`` interrupt long
requests so that others are served, ``forwarding`` asks the controller, ``security`` checks what a client may do. These
modules import no handler.
"""
