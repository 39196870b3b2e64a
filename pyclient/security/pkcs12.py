"""PKCS #12 (RFC 7292), opened by ``cryptography``, which is imported by the first store."""

from __future__ import annotations

from typing import NamedTuple

from pyclient.security.trouble import BadStore, WrongPassword

MAGIC = b"\x30"
"""The first byte of any DER sequence."""


class Pkcs12(NamedTuple):
    """The contents of a store: a key, PKCS#8 in DER, or None; and certificates in DER. The key's own is first, then its
    issuer's, and so on.
    """

    key: bytes | None
    certificates: tuple[bytes, ...]


def read(data: bytes, password: str | None) -> Pkcs12:
    """Opens the store. Raises BadStore."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        if "password" in str(error).lower():
            raise WrongPassword("the password does not open it, or the file is damaged") from None
        raise BadStore("it is not a PKCS12 store, or is damaged") from None
    except Exception as error:  # the library has its own classes for what it does not support
        raise BadStore(str(error) or type(error).__name__) from error
    key = None
    if store.key is not None:
        key = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    rest = [each.certificate for each in store.additional_certs]
    ordered = []
    last = store.cert.certificate if store.cert is not None else None
    while last is not None:
        ordered.append(last)
        issuer = last.issuer
        last = next((each for each in rest if each.subject == issuer and each not in ordered), None)
    ordered += [each for each in rest if each not in ordered and key is None]
    return Pkcs12(key, tuple(each.public_bytes(Encoding.DER) for each in ordered))
