"""Sockets, frames, limits and the order of replies. ``handlers`` decide what a request means.

Start with ``connection`` (one client) and ``server`` (listeners, and which connections are accepted). ``limits`` has
every limit. ``tls`` is below the frames of a TLS listener. ``quotas`` slows down clients that exceed their quotas.
``peer`` sends requests to other brokers. This room imports ``cluster`` and ``config``, and neither logs nor
coordinators.
"""
