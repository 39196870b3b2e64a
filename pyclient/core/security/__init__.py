"""How a client's connections are secured: TLS, and SASL, which says who the client is.

Start with ``secured`` for TLS and ``sasl`` for SASL. ``credentials`` has names, passwords and tokens; ``oauth`` and
``token_endpoint`` get tokens. ``tls_trouble`` puts failures of TLS into words. Key stores and contexts of TLS are in
``pyclient.security``, because the broker has them as well. The messages of SASL are in ``pyclient.protocol``.
"""
