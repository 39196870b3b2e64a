"""What protects a broker: TLS contexts, who its clients are, and what they may do. It opens no connection.

A broker without a secured listener or an authorizer imports of it only ``acls``, which the metadata consist of.
"""
