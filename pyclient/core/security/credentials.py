"""A client's credentials from its settings: name and password, or tokens."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyclient.config import Config
from pyclient.core.backoff import Backoff
from pyclient.core.security.oauth import PROVIDER, Token, Tokens, Window, by_provider, on_own_thread, unsecured
from pyclient.errors import ConfigError
from pyclient.protocol import gssapi, sasl, scram
from pyclient.protocol.sasl import Exchange
from pyclient.security import jaas

JAAS: Final = "sasl.jaas.config"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
TOKEN_ADVICE: Final = (
    "; are sasl.username the id of a delegation token and sasl.password its hmac in base64, and has it not expired?"
)
NONCE_BYTES: Final = 24
_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "PlainLoginModule": (sasl.PLAIN,),
    "ScramLoginModule": tuple(scram.MECHANISMS),
    "OAuthBearerLoginModule": (sasl.OAUTHBEARER,),
    "Krb5LoginModule": (sasl.GSSAPI,),
}
_EXTENSION: Final = "extension_"
_CLAIM: Final = "unsecuredLoginStringClaim_"
_LIST_CLAIM: Final = "unsecuredLoginListClaim_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
_HOUR_S: Final = 3600


@dataclass(frozen=True)
class Credentials:
    """A client's credentials, and how the client begins to authenticate by its mechanism."""

    mechanism: str
    advice: str
    """The advice of the error if the broker rejects the credentials."""
    begin: Callable[[str], Exchange] = field(repr=False)
    """Begins to authenticate with the broker of that host."""
    password: str = field(default="", repr=False)
    """The user's password, if the mechanism is SCRAM."""
    user: str | None = None
    """The client's user; None if the broker derives it from a token."""


def credentials(config: Config, random: Callable[[], float]) -> tuple[Credentials, Tokens | None]:
    """Returns the credentials from the keys sasl.*, and the tokens for OAUTHBEARER. Raises ConfigError."""
    mechanism = (config.sasl_mechanism or "").upper()
    if mechanism not in sasl.MECHANISMS:
        found = f"={mechanism} is not one of" if mechanism else " is missing: it is one of"
        known = ", ".join(sasl.MECHANISMS)
        raise ConfigError(f"sasl.mechanism{found} {known}")
    options = _options(config, mechanism)
    if mechanism == sasl.GSSAPI:
        from pyclient.core.security.kerberos import initiator

        advice = "; does the broker know the principal, and has its keytab the key that the KDC has?"
        begin_with = initiator(config, options)
        return Credentials(mechanism, advice, lambda host: gssapi.client(begin_with(host))), None
    if mechanism == sasl.OAUTHBEARER:
        tokens = _tokens(config, options, random)
        advice = "; does the broker know the token's issuer, audience and scope, and are the clocks right?"
        return Credentials(mechanism, advice, lambda _: _by_token(tokens.token)), tokens
    username: str = config.sasl_username or options.get("username", "")
    password: str = config.sasl_password or options.get("password", "")
    missing = [name for name, given in (("username", username), ("password", password)) if not given]
    if missing:
        names = " and ".join(f"sasl.{name}" for name in missing)
        raise ConfigError(f"{names} {'are' if missing[1:] else 'is'} missing: {mechanism} needs a name and a password")
    is_token = config.sasl_tokenauth or options.get(scram.TOKENAUTH, "").lower() == "true"
    advice = TOKEN_ADVICE if is_token else "; are sasl.username and sasl.password right?"
    if mechanism == sasl.PLAIN:
        if is_token:
            raise ConfigError("a delegation token logs in by SCRAM-SHA-256 or SCRAM-SHA-512, not by PLAIN")
        return Credentials(mechanism, advice, lambda _: sasl.plain(username, password), user=username), None
    more = {scram.TOKENAUTH: "true"} if is_token else {}
    kind = scram.MECHANISMS[mechanism]
    begin = lambda _: sasl.scrammed(kind, username, secrets.token_urlsafe(NONCE_BYTES), more)  # noqa: E731
    return Credentials(mechanism, advice, begin, password, None if is_token else username), None


def _options(config: Config, mechanism: str) -> Mapping[str, str]:
    """Returns the options of sasl.jaas.config. Raises ConfigError."""
    if config.sasl_jaas_config is None:
        return {}
    try:
        module = jaas.parse(config.sasl_jaas_config)
    except jaas.JaasError as error:
        raise ConfigError(f"{JAAS}: {error}") from None
    if mechanism not in _MODULES.get(module.name, ()):
        raise ConfigError(f"{JAAS}: its login module is not one of {mechanism}, but of another mechanism")
    return module.options


def _by_token(token: Token) -> Exchange:
    return sasl.oauthbearer(token.value, token.extensions)


def _tokens(config: Config, options: Mapping[str, str], random: Callable[[], float]) -> Tokens:
    """Returns tokens from the application, an endpoint, or the settings. Raises ConfigError."""
    extensions = {name.removeprefix(_EXTENSION): options[name] for name in options if name.startswith(_EXTENSION)}
    window = Window(
        config.sasl_login_refresh_window_factor,
        config.sasl_login_refresh_window_jitter,
        config.sasl_login_refresh_min_period_seconds,
        config.sasl_login_refresh_buffer_seconds,
    )
    backoff = Backoff(
        config.sasl_login_retry_backoff_ms / 1000, config.sasl_login_retry_backoff_max_ms / 1000, random
    )
    provider = config.sasl_oauth_token_provider
    if provider is not None:
        if not callable(getattr(provider, "token", provider)):
            raise ConfigError(f"{PROVIDER} is not a function, and has no method `token`")
        return Tokens(PROVIDER, by_provider(provider), window, backoff)
    if config.sasl_oauthbearer_token_endpoint_url is not None:
        from pyclient.core.security.token_endpoint import TokenEndpoint

        endpoint = TokenEndpoint(
            config.sasl_oauthbearer_token_endpoint_url,
            _client(config, options),
            config.sasl_oauthbearer_scope or options.get("scope"),
            config.sasl_login_connect_timeout_ms / 1000,
            config.sasl_login_read_timeout_ms / 1000,
        )
        return Tokens(endpoint.name, on_own_thread(endpoint, extensions), window, backoff)
    if any(name.startswith(_CLAIM) for name in options):
        return Tokens(JAAS, on_own_thread(partial(_unsecured, options), extensions), window, backoff)
    raise ConfigError(f"OAUTHBEARER needs {PROVIDER}, or {ENDPOINT} with the client's id and secret")


def _client(config: Config, options: Mapping[str, str]) -> tuple[str, str]:
    """Returns the client's id and secret for the token endpoint. Raises ConfigError."""
    stem = "sasl.oauthbearer.client.credentials.client"
    id, secret = (config[f"{stem}.{each}"] for each in ("id", "secret"))
    id, secret = id or options.get("clientId"), secret or options.get("clientSecret")
    if not id or not secret:
        raise ConfigError(f"{ENDPOINT} needs {stem}.id and {stem}.secret")
    return id, secret


def _unsecured(options: Mapping[str, str]) -> Token:
    """Returns an unsigned token with the claims of sasl.jaas.config, for brokers that do not check signatures."""
    now = time.time()
    expires = now + float(options.get(_LIFETIME, _HOUR_S))
    claims: dict[str, object] = {"iat": now, "exp": expires}
    for name, value in options.items():
        if name.startswith(_CLAIM):
            claims[name.removeprefix(_CLAIM)] = value
        elif name.startswith(_LIST_CLAIM):
            claims[name.removeprefix(_LIST_CLAIM)] = value[1:].split(value[:1]) if value else []
    return Token(unsecured(claims), expires)
