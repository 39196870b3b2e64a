"""The security of a broker: ACLs and the authorizer, names of users, delegation tokens. It opens no connection.

Start with ``acls`` and ``authorizer``. ``sasl`` has the authentication of clients, and ``tls`` contexts and
certificates. This room imports ``config``. A broker without a secured listener or an authorizer imports only ``acls``
and ``tokens``, which the metadata contain.
"""
