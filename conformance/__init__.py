"""The conformance suite: what a Kafka broker must do, tried from outside by sockets, bytes and foreign clients.

Start with ``scenarios`` (what users do), ``api`` (one request at a time) and ``wire`` (bytes). ``harness`` has what
tests start and talk to, ``drivers`` the clients, ``data`` what they write. ``faults`` and ``differential`` are
campaigns, ``bench`` measures, ``report`` makes docs/conformance.md. Of our code it imports only public names of
``pyclient``.
"""
