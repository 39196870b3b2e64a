"""SASL: how clients of a listener authenticate, one file for each mechanism, and how their passwords are stored.

Start with ``authentication`` (which message of a connection is valid when) and ``listener_sasl`` (the mechanisms of a
listener, from the configuration). ``digest_md5`` is for ZooKeeper, as its client. This room imports ``config`` and, of
``security``, names of users and delegation tokens. It opens no connection.
"""
