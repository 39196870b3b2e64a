"""``ssl.SSLContext``s from Kafka's settings, for a client and for a server. They never write a private key to a disk.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyclient.security import ciphers, pem
from pyclient.security.stores import KEY_PASSWORD, KeyStore, Settings, TrustStore, key_store, trust_store
from pyclient.security.trouble import TlsConfigError

IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
CLIENT_AUTH: Final = "ssl.client.auth"
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_KEY_SETTING: Final = "ssl.keystore.location"


def client_context(settings: Settings) -> ssl.SSLContext:
    """Returns a client's context. Without a trust store, it trusts the system's authorities. It checks that the
    certificate names the host, unless ``ssl.endpoint.identification.algorithm`` is empty. Raises TlsConfigError.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    algorithm = settings.get(IDENTIFICATION, "https")
    algorithm = str(algorithm or "").strip().lower()
    if algorithm not in ("https", ""):
        raise TlsConfigError(IDENTIFICATION, f"{algorithm} is neither https nor empty (empty checks no host names)")
    context.check_hostname = bool(algorithm)
    keys = key_store(settings)
    if keys is not None:
        _present(context, keys)
    trusted = trust_store(settings)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, trusted)
    ciphers.apply(context, settings)
    return context


def server_context(settings: Settings) -> ssl.SSLContext:
    """Returns a server's context, which must have a key store. ``ssl.client.auth`` tells whether clients need a
    certificate. If it asks for one, there must be a trust store. Raises TlsConfigError.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    ciphers.without_finite_fields(context)
    keys = key_store(settings)
    if keys is None:
        advice = "`pybroker tls create DIR` makes both"
        raise TlsConfigError(_KEY_SETTING, f"is missing: a server needs a key and its certificate; {advice}")
    _present(context, keys)
    wanted = str(settings.get(CLIENT_AUTH) or "none").strip().lower()
    if wanted not in _CLIENT_AUTH:
        raise TlsConfigError(CLIENT_AUTH, f"{wanted} is not one of {', '.join(_CLIENT_AUTH)}")
    context.verify_mode = _CLIENT_AUTH[wanted]
    trusted = trust_store(settings)
    if trusted is not None:
        _trust(context, trusted)
    elif wanted != "none":
        lacking = "clients' certificates are checked against ssl.truststore.*, which is not set"
        raise TlsConfigError(CLIENT_AUTH, f"is {wanted}, but {lacking}")
    ciphers.apply(context, settings)
    return context


def _context(protocol: int) -> ssl.SSLContext:
    """Returns a context in which each trusted certificate may end a chain, self-signed or not, as in Java."""
    context = ssl.SSLContext(protocol)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _trust(context: ssl.SSLContext, store: TrustStore) -> None:
    try:
        context.load_verify_locations(cadata="\n".join(store.certificates))
    except (ssl.SSLError, ValueError) as error:
        raise TlsConfigError(
            store.setting, _said(store.file, f"a certificate cannot be read: {_reason(error)}")
        ) from None


def _present(context: ssl.SSLContext, store: KeyStore) -> None:
    text = "\n".join((store.key, *store.chain, ""))
    try:
        with _file_of(text.encode()) as path:
            context.load_cert_chain(path, password=lambda: store.password or "")  # else OpenSSL asks a terminal
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None)
        if reason == "KEY_VALUES_MISMATCH":
            raise TlsConfigError(
                store.setting, _said(store.file, "the key is not the one of the first certificate")
            ) from None
        if pem.is_encrypted(store.key):
            raise TlsConfigError(KEY_PASSWORD, _said(store.file, "the password does not open the key")) from None
        complaint = f"key and certificates cannot be used: {_reason(error)}"
        raise TlsConfigError(store.setting, _said(store.file, complaint)) from None


def _said(file: str, complaint: str) -> str:
    return f"{file}: {complaint}" if file else complaint


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error)


@contextmanager
def _file_of(data: bytes) -> Iterator[str]:
    """Returns the name of a file with these bytes, because OpenSSL reads keys only from files. The file is in memory if
    the system supports that. Otherwise only its user can read it, and it is removed at once.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("pem", os.MFD_CLOEXEC)
        with open(fd, "wb", buffering=0) as file:
            path = f"/proc/self/fd/{fd}"
            if os.path.exists(path):
                file.write(data)
                yield path
                return
    with tempfile.NamedTemporaryFile() as file_on_disk:
        file_on_disk.write(data)
        file_on_disk.flush()
        yield file_on_disk.name
