"""TLS of clients' connections. Start with ``handshakes``, which makes the secured connections.

``client_hello`` inspects a client's first message, ``frames`` is between a socket and the frames of a connection. A
broker without a TLS listener does not import this room. Certificates and contexts are in ``security.tls``.
"""
