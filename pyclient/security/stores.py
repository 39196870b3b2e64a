"""Key stores and trust stores from Kafka's settings: PEM as a file or as text, PKCS12, JKS.

``ssl.keystore.type`` and ``ssl.truststore.type`` are PEM, PKCS12 or JKS. As in Java, PKCS12 is also read if the setting
is JKS: the first bytes of a file tell the type. If no type is set, they also identify PEM.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyclient.security import jks, pem, pkcs12
from pyclient.security.trouble import BadStore, TlsConfigError, WrongPassword

Settings = Mapping[str, Any]
"""Kafka's keys without a listener's prefix. A missing entry, or None, means that a setting is not given."""

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
TYPES: Final = (PEM, PKCS12, JKS)
_BEGIN: Final = "-----BEGIN"
_MOST_BYTES: Final = 4 << 20
"""The most bytes of a file."""

KEY_PASSWORD: Final = "ssl.key.password"
_KEY_TYPE, _TRUST_TYPE = "ssl.keystore.type", "ssl.truststore.type"
_KEY_FILE, _TRUST_FILE = "ssl.keystore.location", "ssl.truststore.location"
_KEY_FILE_PASSWORD, _TRUST_FILE_PASSWORD = "ssl.keystore.password", "ssl.truststore.password"
_KEY, _CHAIN = "ssl.keystore.key", "ssl.keystore.certificate.chain"
_CERTIFICATES: Final = "ssl.truststore.certificates"


class KeyStore(NamedTuple):
    """A private key and its chain of certificates, in PEM."""

    key: str
    """The private key. It is encrypted if the given PEM contains it encrypted."""
    password: str | None
    """The password of the key, if the key is encrypted."""
    chain: tuple[str, ...]
    """The key's own certificate first."""
    setting: str
    """The setting that named the key."""
    file: str
    """The path of the file. Empty means that the setting itself has the text."""

    def __repr__(self) -> str:
        return f"KeyStore({self.setting}, {self.file or 'text'})"


class TrustStore(NamedTuple):
    """The trusted certificates, in PEM."""

    certificates: tuple[str, ...]
    setting: str
    file: str

    def __repr__(self) -> str:
        return f"TrustStore({self.setting}, {self.file or 'text'})"


def key_store(settings: Settings) -> KeyStore | None:
    """Returns the key store of the settings; None if they name none. Raises TlsConfigError."""
    key, chain, path = (_text(settings, name) for name in (_KEY, _CHAIN, _KEY_FILE))
    password, key_password = settings.get(_KEY_FILE_PASSWORD), settings.get(KEY_PASSWORD)
    declared = _type(settings, _KEY_TYPE)
    if key:
        _check_inline(_KEY, _KEY_TYPE, declared)
        if not chain:
            raise TlsConfigError(_CHAIN, f"must be set if {_KEY} is set")
        if path:
            raise TlsConfigError(_KEY_FILE, f"is set together with {_KEY}, which is the key itself: remove one of them")
        _check_no_password(_KEY_FILE_PASSWORD, password, f"; the password of its key is {KEY_PASSWORD}")
        return _pem_keys(key, chain, key_password, _KEY, "")
    if chain:
        raise TlsConfigError(_KEY, f"must be set if {_CHAIN} is set")
    if not path:
        if password is not None:
            raise TlsConfigError(_KEY_FILE, f"must be set if {_KEY_FILE_PASSWORD} is set")
        return None
    data = _load(_KEY_FILE, path)
    kind = _kind(data, _KEY_FILE, path, _KEY_TYPE, declared)
    if kind == PEM:
        _check_no_password(_KEY_FILE_PASSWORD, password, f"; the password of its key is {KEY_PASSWORD}")
        text = data.decode("utf-8", "replace")
        return _pem_keys(text, text, key_password, _KEY_FILE, path)
    if password is None:
        raise TlsConfigError(_KEY_FILE_PASSWORD, f"is missing for {path}, which is {kind}")
    found, ders = _opened(data, kind, password, key_password, path)
    blocks = tuple(pem.block(pem.CERTIFICATE, der) for der in ders)
    return KeyStore(pem.block(pem.PRIVATE_KEY, found), None, blocks, _KEY_FILE, path)


def trust_store(settings: Settings) -> TrustStore | None:
    """Returns the trust store of the settings; None if they name none. Raises TlsConfigError."""
    text, path = _text(settings, _CERTIFICATES), _text(settings, _TRUST_FILE)
    password = settings.get(_TRUST_FILE_PASSWORD)
    declared = _type(settings, _TRUST_TYPE)
    if text:
        _check_inline(_CERTIFICATES, _TRUST_TYPE, declared)
        if path:
            raise TlsConfigError(_TRUST_FILE, f"is set together with {_CERTIFICATES}: remove one of them")
        _check_no_password(_TRUST_FILE_PASSWORD, password)
        return _trusted(pem.certificates(text), _CERTIFICATES, "")
    if not path:
        if password is not None:
            raise TlsConfigError(_TRUST_FILE, f"must be set if {_TRUST_FILE_PASSWORD} is set")
        return None
    data = _load(_TRUST_FILE, path)
    kind = _kind(data, _TRUST_FILE, path, _TRUST_TYPE, declared)
    if kind == PEM:
        _check_no_password(_TRUST_FILE_PASSWORD, password)
        return _trusted(pem.certificates(data.decode("utf-8", "replace")), _TRUST_FILE, path)
    ders = _ders(data, kind, password, path)
    return _trusted([pem.block(pem.CERTIFICATE, der) for der in ders], _TRUST_FILE, path)


# -- settings --------------------------------------------------------------------------------------


def _text(settings: Settings, name: str) -> str:
    """Returns the value of a setting, empty if it is not given. Raises an error for a PEM in place of a file name, or
    the reverse.
    """
    value = settings.get(name)
    if value is None:
        return ""
    text = str(value).strip()
    is_place = name in (_KEY_FILE, _TRUST_FILE)
    if not text and (is_place or name == _CERTIFICATES):
        raise TlsConfigError(name, "is given, but empty")
    if is_place and _BEGIN in text:
        right = _CERTIFICATES if name == _TRUST_FILE else f"{_KEY} and {_CHAIN}"
        raise TlsConfigError(name, f"is a PEM, not the name of a file: give it as {right}")
    if text and not is_place and _BEGIN not in text:
        right = _TRUST_FILE if name == _CERTIFICATES else _KEY_FILE
        raise TlsConfigError(name, f"is not a PEM, which begins with {_BEGIN}; give a file name as {right}")
    return text


def _type(settings: Settings, name: str) -> str | None:
    value = settings.get(name)
    if not value:
        return None
    declared = str(value).strip().upper()
    if declared not in TYPES:
        raise TlsConfigError(name, f"{value} is not one of {', '.join(TYPES)}")
    return declared


def _check_inline(setting: str, type_setting: str, declared: str | None) -> None:
    if declared not in (None, PEM):
        raise TlsConfigError(type_setting, f"is {declared}, but {setting} is given, which needs {PEM}")


def _check_no_password(setting: str, password: Any, more: str = "") -> None:
    if password is not None:
        raise TlsConfigError(setting, f"is given, but a PEM has no store password{more}")


# -- files -----------------------------------------------------------------------------------------


def _load(setting: str, path: str) -> bytes:
    """Returns the bytes of a file. Rejects a pipe, which might never be filled. Raises TlsConfigError."""
    try:
        with open(path, "rb", opener=_open) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TlsConfigError(setting, f"{path}: it is not a regular file")
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise TlsConfigError(setting, f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise TlsConfigError(setting, f"{path!r}: {error}") from None
    if len(data) > _MOST_BYTES:
        raise TlsConfigError(setting, f"{path}: it has more than {_MOST_BYTES} bytes")
    return data


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _kind(data: bytes, setting: str, path: str, type_setting: str, declared: str | None) -> str:
    """Returns the kind of the file from its first bytes. Raises TlsConfigError if the settings declare another kind."""
    if data.startswith(jks.MAGIC):
        found = JKS
    elif data.startswith(jks.JCEKS_MAGIC):
        convert = "keytool -importkeystore -deststoretype PKCS12"
        raise TlsConfigError(setting, f"{path} is JCEKS, which is not supported: convert it to PKCS12 with {convert}")
    elif data.startswith(pkcs12.MAGIC):
        found = PKCS12
    elif _BEGIN.encode() in data:
        found = PEM
    else:
        raise TlsConfigError(setting, f"{path} is not one of {', '.join(TYPES)}")
    if declared is not None and (declared == PEM) is not (found == PEM):
        raise TlsConfigError(type_setting, f"is {declared}, but {path} is {found}")
    return found


def _opened(
    data: bytes, kind: str, password: str, key_password: str | None, path: str
) -> tuple[bytes, tuple[bytes, ...]]:
    """Returns the key and its chain, in DER."""
    setting = _KEY_FILE_PASSWORD
    try:
        if kind == PKCS12:
            key, chain = pkcs12.read(data, password)
        else:
            store = jks.read(data, password)
            setting = KEY_PASSWORD
            key, chain = None, ()
            if store.keys:
                chain = store.keys[0].chain
                key = jks.reveal(store.keys[0].hidden, password if key_password is None else key_password)
    except WrongPassword as error:
        raise TlsConfigError(setting, f"{path}: {error}") from None
    except BadStore as error:
        raise TlsConfigError(_KEY_FILE, f"{path}: {error}") from None
    if key is None or not chain:
        raise TlsConfigError(_KEY_FILE, f"{path} has no private key with a certificate")
    return key, chain


def _ders(data: bytes, kind: str, password: str | None, path: str) -> tuple[bytes, ...]:
    """Returns the certificates of a trust store, including those of keys, as in Java."""
    try:
        if kind == PKCS12:
            found = pkcs12.read(data, password)
            return found.certificates if found.key is None else found.certificates[:1]
        store = jks.read(data, password)
        return store.trusted + tuple(each.chain[0] for each in store.keys if each.chain)
    except WrongPassword as error:
        raise TlsConfigError(_TRUST_FILE_PASSWORD, f"{path}: {error}") from None
    except BadStore as error:
        raise TlsConfigError(_TRUST_FILE, f"{path}: {error}") from None


def _pem_keys(text: str, chain_text: str, password: str | None, setting: str, path: str) -> KeyStore:
    keys, chain = pem.keys(text), pem.certificates(chain_text)
    where = f"{path} has" if path else "has"
    if len(keys) != 1:
        raise TlsConfigError(setting, f"{where} {len(keys)} private keys, but must have one")
    if not chain:
        raise TlsConfigError(setting if path else _CHAIN, f"{where} no certificate")
    if pem.is_encrypted(keys[0]) and password is None:
        raise TlsConfigError(KEY_PASSWORD, f"is missing: the key of {path or setting} is encrypted")
    return KeyStore(keys[0], password, tuple(chain), setting, path)


def _trusted(certificates: list[str], setting: str, path: str) -> TrustStore:
    if not certificates:
        raise TlsConfigError(setting, f"{path} has no certificate" if path else "has no certificate")
    return TrustStore(tuple(certificates), setting, path)
