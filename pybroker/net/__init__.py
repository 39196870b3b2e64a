"""Sockets, frames, limits and the order of replies. What a request means is decided elsewhere: in ``handlers``.

Start with ``connection`` (one client) and ``server`` (listeners, and who is accepted). ``limits`` has every limit;
``handshakes`` and ``tls`` stand below the frames of a secured listener. ``peer`` goes the other way: requests to other
brokers. It imports ``cluster`` and ``config``, and neither logs nor coordinators.
"""
