"""Tables of Kafka's configuration keys: the type, default, range and text of each.

Start with ``key`` (the definition of a key) and ``broker_keys``. Other tables have the keys of topics, groups, TLS and
SASL, and keys that have no effect here (``inert_keys``). ``foreign_keys`` distinguishes mistyped keys from keys of
other software. This room imports nothing else of ``config``, and knows no values.
"""
