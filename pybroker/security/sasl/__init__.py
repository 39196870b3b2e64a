"""SASL: how clients of a listener authenticate, one file for each mechanism, and how their passwords are stored.

Start with ``authentication`` (which message of a connection is valid when) and ``listener_sasl`` (the mechanisms of a
listener, from the configuration). With ``digest_md5``, this broker logs in to ZooKeeper. This room imports ``config``
and, from ``security``, names of users and delegation tokens. It opens no connection.
"""
