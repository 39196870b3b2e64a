"""TLS of a broker, for its listeners and its connections to other brokers and ZooKeeper; certificates for tests.

Start with ``listener_tls`` (a listener's context, made again when its files change) and ``broker_tls`` (how brokers of
a cluster recognise each other). ``memory_handshake`` tries new settings. This room imports ``config``,
``pyclient.security``, and from ``security`` the mapping of certificates to users. It opens no connection.
"""
