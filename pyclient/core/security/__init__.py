"""Security of a client's connections: TLS, and SASL to authenticate the client.

Start with ``secured`` for TLS and ``sasl`` for SASL. ``credentials`` has names, passwords and tokens; ``oauth`` and
``token_endpoint`` fetch tokens. ``tls_trouble`` explains TLS failures. Key stores and TLS contexts are in
``pyclient.security``, because the broker uses them as well. The messages of SASL are in ``pyclient.protocol``.
"""
