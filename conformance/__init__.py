"""The conformance suite checks from outside what a Kafka broker must do, by sockets, bytes and foreign clients.

Start with ``scenarios`` (what users do), ``api`` (one request at a time) and ``wire`` (bytes). ``drivers`` are the
clients, ``data`` is what they write. ``faults`` and ``differential`` are campaigns, ``bench`` measures, ``report``
makes docs/conformance.md. It imports ``harness``, and of our code only public names and ``keywords`` of
``pyclient``.
"""
