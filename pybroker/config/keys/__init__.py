"""Tables of Kafka's configuration keys: the type, default, range and text of each.

Start with ``key`` (what a key is) and ``broker_keys``. The other tables are of topics, groups, TLS, SASL, and of keys
that have no effect here (``inert_keys``). ``foreign_keys`` tells a mistyped key from one of other software. This room
imports nothing else of ``config``, and knows no values.
"""
