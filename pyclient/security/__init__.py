"""TLS as Kafka's settings name it: key stores, trust stores, and ``ssl.SSLContext``s of them. Opens no connection.

Client and broker share it. What is imported here is Python's own; ``cryptography`` is imported where a PKCS12 store
is opened, or a certificate is made (``authority``).
"""

from __future__ import annotations

from pyclient.security.contexts import IDENTIFICATION, client_context, server_context
from pyclient.security.stores import KeyStore, TrustStore, key_store, trust_store
from pyclient.security.trouble import TlsConfigError

__all__ = [
    "IDENTIFICATION",
    "KeyStore",
    "TlsConfigError",
    "TrustStore",
    "client_context",
    "key_store",
    "server_context",
    "trust_store",
]
