"""OAUTHBEARER (RFC 7628): the client shows a token (JWT) that is signed by a known key (JWKS).

A token is valid if one of the keys has signed it, it has not expired, and it has the expected issuer and audience. Its
subject is the user. The session ends when the token expires, at the latest. Only algorithms with public keys are
accepted: neither ``none`` nor a shared secret.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import InvalidClaimError, InvalidKeyIdError
from joserfc.jwk import KeySet

from pybroker.config import ConfigError
from pybroker.config.sasl_listeners import OAuth
from pybroker.security.sasl.authentication import BadMessage
from pyclient.protocol.errors import SaslAuthenticationFailed

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
MOST_BYTES: Final = 64 * 1024
"""The longest message; tokens have some thousand bytes."""
MOST_OF_FILE: Final = 1 << 20
LEAST_S: Final = 0.001
MOST_S: Final = 1 << 40
"""The longest lifetime, so that a session's end is a valid number on the wire."""
_TIMES: Final = ("exp", "iat", "nbf")
_MARK: Final = b"\x01"
_REFUSED: Final = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
_BEARER: Final = "bearer "

logger = logging.getLogger("pybroker.security")


class Tokens:
    """The mechanism, with the keys of one listener, which come from a file or from ``key_fetcher``."""

    def __init__(self, listener: str, settings: OAuth, time_s: Callable[[], float] = time.time) -> None:
        """Reads the keys if they are in a file. Raises ConfigError."""
        self.listener = listener
        self.source = settings.remote
        """The URL of the keys, None for a file."""
        self.keys: KeySet | None = None
        """The keys, None until they have been fetched. Any thread may replace them."""
        self.on_unknown_key: Callable[[], object] = lambda: None
        """Called if a token has an unknown key."""
        self._settings = settings
        self._time_s = time_s
        if self.source is not None:
            return
        self._stamp = self._look()
        try:
            self.keys = read_keys(settings.jwks)
        except (OSError, ValueError) as error:
            raise ConfigError(f"listener {listener}: {settings.jwks}: {_why(error)}") from None

    def begin(self) -> OAuthExchange:
        """Begins one authentication."""
        return OAuthExchange(self)

    def refresh(self) -> None:
        """Reads the keys again if their file has changed; if that fails, the old ones stay."""
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.keys = read_keys(self._settings.jwks)
        except (OSError, ValueError) as error:
            why = _why(error)
            logger.error("listener %s keeps its earlier keys: %s: %s", self.listener, self._settings.jwks, why)
        else:
            logger.info("listener %s has reloaded the keys for tokens", self.listener)

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = Path(self._settings.jwks).stat()
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def check(self, token: str) -> tuple[str, int]:
        """Returns the user, and for how many milliseconds the token is valid. Raises BadMessage."""
        settings, now_s = self._settings, self._time_s()
        options: dict[str, Any] = {"exp": {"essential": True}, "iat": {"essential": True}}
        if settings.issuer is not None:
            options["iss"] = {"essential": True, "value": settings.issuer}
        if settings.audience:
            options["aud"] = {"essential": True, "values": list(settings.audience)}
        keys = self.keys
        if keys is None:
            raise BadMessage("no keys for tokens have been fetched yet")
        try:
            claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
            Claims(now=int(now_s), leeway=settings.skew_s, **options).validate(claims)
            user, left_s = claims[settings.user_claim], float(claims["exp"]) - now_s
            lifetime_ms = int(min(max(left_s, LEAST_S), MOST_S) * 1000)
        except Exception as error:  # a malicious token may raise any error
            if isinstance(error, InvalidKeyIdError):
                self.on_unknown_key()
            what = f"{type(error).__name__} {getattr(error, 'claim', '')}".strip()
            raise BadMessage(f"the token is not valid: {what}") from None
        if not isinstance(user, str) or not user.strip():
            raise BadMessage(f"the token has no {settings.user_claim}")
        return user, lifetime_ms


class Claims(jwt.JWTClaimsRegistry):
    """The claims that a token must have. Its times are whole seconds, as in Kafka: ``iat`` may be in the future, and no
    time may be later than ``exp``.
    """

    def validate_iat(self, value: object) -> None:
        """Accepts any time in ``iat``."""

    def validate(self, claims: dict[str, Any]) -> None:
        """Raises an error of joserfc if the claims are not valid."""
        times = {name: _seconds(name, claims[name]) for name in _TIMES if claims.get(name) is not None}
        others = {name: value for name, value in claims.items() if name not in _TIMES}
        super().validate(others | times)
        if times["exp"] < max(times.values()):
            raise InvalidClaimError("exp")


def _seconds(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidClaimError(name)
    return int(value)


class OAuthExchange:
    """The message of one authentication. If it is refused, the client's answer to the reason follows."""

    is_by_token = False

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._refusal: BadMessage | None = None
        self.user: str | None = None
        self.lifetime_ms = 0

    def on_message(self, message: bytes) -> bytes:
        """Returns an empty answer, or why the token is not valid. Raises BadMessage, SaslAuthenticationFailed."""
        if self._refusal is not None:
            raise SaslAuthenticationFailed(_REFUSED) from self._refusal
        authorization_id, token = read(message)
        try:
            user, lifetime_ms = self._tokens.check(token)
        except BadMessage as error:
            self._refusal = error
            return _REFUSED.encode()
        if authorization_id not in ("", user):
            text = "Client requested an authorization id that is different from the token's principal name"
            raise SaslAuthenticationFailed(f"Authentication failed: {text}")
        self.user, self.lifetime_ms = user, lifetime_ms
        return b""


def read(message: bytes) -> tuple[str, str]:
    """Returns the authorization id (perhaps empty) and the token in a client's message. Raises BadMessage."""
    if len(message) > MOST_BYTES:
        raise BadMessage(f"a message has more than {MOST_BYTES} bytes")
    header, *pairs = message.split(_MARK)
    flag, *names = header.split(b",")
    if flag != b"n" or len(names) != 2 or names[1] or pairs[-2:] != [b"", b""]:
        raise BadMessage("not of the form n,,^Aauth=Bearer TOKEN^A^A")
    try:
        values = dict(pair.decode("ascii").partition("=")[::2] for pair in pairs[:-2])
        identity = names[0].decode()
    except UnicodeDecodeError:
        raise BadMessage("not of ASCII") from None
    token = values.get("auth", "")
    if token[: len(_BEARER)].lower() != _BEARER:
        raise BadMessage("no bearer token")
    return identity.removeprefix("a="), token[len(_BEARER) :].strip()


def read_keys(path: str) -> KeySet:
    """Returns the public keys in a file. Raises OSError, ValueError."""
    with Path(path).open("rb") as file:
        data = file.read(MOST_OF_FILE + 1)
    if len(data) > MOST_OF_FILE:
        raise ValueError(f"it has more than {MOST_OF_FILE} bytes")
    return keys_of(data)


def keys_of(data: bytes) -> KeySet:
    """Returns the public keys in a text. Raises ValueError."""
    try:
        found = json.loads(data)
        rows = [row for row in found["keys"] if row.get("kty") != "oct" and row.get("use", "sig") == "sig"]
        return KeySet.import_key_set({"keys": rows})
    except Exception as error:  # joserfc raises many kinds
        raise ValueError(f"it is not a JWKS with public keys for signatures ({type(error).__name__})") from None


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


