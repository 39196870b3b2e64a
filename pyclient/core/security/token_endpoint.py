"""Fetches tokens by OAuth's client credentials (RFC 6749, 4.4): an id and a secret against a token, by HTTP. Blocks."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import SplitResult, urlencode

from pyclient.config.key import HIDDEN
from pyclient.core.security.oauth import Refused, Token, expiry_of
from pyclient.errors import ConfigError
from pyclient.protocol.sasl import told
from pyclient.security import http_call

URL: Final = "sasl.oauthbearer.token.endpoint.url"
_PASSING: Final = frozenset({408, 425, 429})
"""Answers of 4xx that another attempt may not get."""


class TokenEndpoint:
    """Called, it asks the endpoint for a token. Times in seconds."""

    def __init__(
        self, url: str, client: tuple[str, str], scope: str | None, connect_s: float, read_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """``client``: its id and secret. Raises ConfigError."""
        self._url = _checked(url)
        self._client = client
        self._scope = scope
        self._connect_s, self._read_s = connect_s, read_s
        self._clock = clock

    @property
    def name(self) -> str:
        """Its host and port."""
        return self._url.netloc

    def __call__(self) -> Token:
        """Raises OSError, where the next attempt may do better, and Refused."""
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        try:
            status, body = http_call.ask(
                self._url, self._headers(), urlencode(form), connect_s=self._connect_s, read_s=self._read_s
            )
        except http_call.TooLong as error:
            raise Refused(str(error)) from None
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            found = {}
        if status != HTTPStatus.OK:
            raise self._refusal(status, found)
        value = found.get("access_token")
        if not isinstance(value, str) or not value:
            raise Refused("its answer has no access_token")
        return Token(value, self._expires(value, found.get("expires_in")))

    def _headers(self) -> dict[str, str]:
        return {
            "Authorization": f"Basic {base64.b64encode(':'.join(self._client).encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }

    def _refusal(self, status: int, found: dict[str, Any]) -> Exception:
        said = [found[name] for name in ("error", "error_description") if isinstance(found.get(name), str)]
        why = told(": ".join([f"it answers {status}", *said])).replace(self._client[1], HIDDEN)
        lasts = status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _PASSING
        return Refused(why) if lasts else OSError(why)

    def _expires(self, value: str, seconds: object) -> float | None:
        """As the token itself says, else as the answer does."""
        own = expiry_of(value)
        if own is None and isinstance(seconds, int | float) and seconds > 0:
            return self._clock() + seconds
        return own


def _checked(url: str) -> SplitResult:
    """Raises ConfigError, without the URL where that may have a password."""
    parts = http_call.parse(url)
    if parts is None:
        raise ConfigError(f"{URL} is not http://… or https://…")
    if "@" in parts.netloc:
        raise ConfigError(f"{URL} must not have a name or password: set client id and secret")
    return parts
