"""Fetches tokens by OAuth's client credentials (RFC 6749, 4.4): sends id and secret by HTTP, gets a token. Blocks."""

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
"""4xx answers that another attempt may not get."""


class TokenEndpoint:
    """Fetches a token from the endpoint when called. Times are in seconds."""

    def __init__(
        self, url: str, client: tuple[str, str], scope: str | None, connect_s: float, read_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """``client`` is its id and secret. Raises ConfigError."""
        self._url = _checked(url)
        self._client = client
        self._scope = scope
        self._connect_s, self._read_s = connect_s, read_s
        self._clock = clock

    @property
    def name(self) -> str:
        """The endpoint's host and port."""
        return self._url.netloc

    def __call__(self) -> Token:
        """Returns a token. Raises OSError if another attempt may succeed, otherwise Refused."""
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
        """Returns the expiry in the token. If it has none, returns the expiry in the answer."""
        own = expiry_of(value)
        if own is None and isinstance(seconds, int | float) and seconds > 0:
            return self._clock() + seconds
        return own


def _checked(url: str) -> SplitResult:
    """Returns the parts of the URL. Raises ConfigError, whose text omits a URL that may contain a password."""
    parts = http_call.parse(url)
    if parts is None:
        raise ConfigError(f"{URL} is not http://… or https://…")
    if "@" in parts.netloc:
        raise ConfigError(f"{URL} must not have a name or password: set client id and secret")
    return parts
