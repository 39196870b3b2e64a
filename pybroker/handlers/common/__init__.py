"""What several handlers share: the call, turns for long requests, forwarding, admission to a transaction.

Start with ``call``: what a handler is given of its broker and its connection. ``pacing`` and ``turns`` let long
requests make way, ``forwarding`` asks the controller, ``between_brokers`` says who may ask. No handler is imported.
"""
