"""The security of a broker: TLS contexts, ACLs, users' names, delegation tokens. It opens no connection.

Start with ``acls`` and ``authorizer``. ``sasl`` has the authentication of clients. This room imports ``config``. A
broker without a secured listener or an authorizer imports only ``acls`` and ``tokens``, which the metadata contain.
"""
