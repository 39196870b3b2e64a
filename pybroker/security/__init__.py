"""The security of a broker: TLS contexts, the authentication of clients, and their rights. It opens no connection.

A broker without a secured listener or an authorizer imports only ``acls``, which the metadata contain.
"""
