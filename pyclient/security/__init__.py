"""TLS from Kafka's settings: key stores, trust stores, and ``ssl.SSLContext``s made of them. Opens no connection.

Client and broker share it. It needs only Python's standard library. ``cryptography`` is imported when a PKCS12 store is
opened or a certificate is made (``authority``).
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
