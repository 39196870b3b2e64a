"""Translates a login into each library's settings."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.abc import AbstractTokenProvider as AiokafkaTokens
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokens

from harness.servers.guarded import MODULES, PASSWORD, jaas
from harness.servers.issuer import LIFETIME_S, Issuer

KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE = {"sasl.kerberos.service.name": "kafka"}


class Login(NamedTuple):
    """A user, with the mechanism and the listener of its login."""

    bootstrap: str
    user: str
    password: str = PASSWORD
    mechanism: str = "PLAIN"
    #: The authority's certificate; a client with it uses TLS.
    ca: str | None = None
    #: OAUTHBEARER uses this.
    issuer: Issuer | None = None
    #: Says whether the user is a delegation token.
    is_token: bool = False
    #: GSSAPI uses this; Python's clients take it from the environment.
    keytab: Path | None = None

    @property
    def principal(self) -> str:
        """Returns the user as ACLs name it."""
        return f"User:{self.user}"

    @property
    def protocol(self) -> str:
        """Returns the listener's security protocol."""
        return "SASL_SSL" if self.ca else "SASL_PLAINTEXT"

    def java(self) -> dict[str, str]:
        """Returns the settings of Java's clients and of Kafka's tools."""
        found = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        found["sasl.mechanism"] = self.mechanism
        if self.ca:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        if self.issuer:
            return found | {
                "sasl.jaas.config": jaas(self.mechanism),
                "sasl.login.callback.handler.class": f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
                **self._credentials(),
            }
        if self.keytab:
            options = f'useKeyTab=true storeKey=true keyTab="{self.keytab}" principal="{self.user}"'
            return found | {"sasl.jaas.config": f"{KERBEROS_MODULE} required {options};", **SERVICE}
        more = {"tokenauth": "true"} if self.is_token else {}
        return found | {"sasl.jaas.config": jaas(self.mechanism, username=self.user, password=self.password, **more)}

    def _credentials(self) -> dict[str, str]:
        """Returns the credentials with which a client fetches a token."""
        assert self.issuer is not None
        prefix = "sasl.oauthbearer.client.credentials.client"
        names = {f"{prefix}.id": self.user, f"{prefix}.secret": self.password}
        return {"sasl.oauthbearer.token.endpoint.url": self.issuer.url, **names}

    def librdkafka(self) -> dict[str, Any]:
        """Returns librdkafka's settings."""
        found: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        found |= {"sasl.mechanism": self.mechanism, "log_level": 0}
        if self.ca:
            found["ssl.ca.location"] = self.ca
        if self.issuer:
            return found | {"oauth_cb": lambda _: (self._token(), time.time() + LIFETIME_S)}
        return found | {"sasl.username": self.user, "sasl.password": self.password}

    def pyclient(self) -> dict[str, Any]:
        """Returns our client's settings, with a password."""
        found: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        found |= {"sasl_mechanism": self.mechanism, "sasl_username": self.user, "sasl_password": self.password}
        return found | ({"ssl_truststore_location": self.ca} if self.ca else {})

    def kafka_python(self) -> dict[str, Any]:
        """Returns kafka-python's settings."""
        return self._python(_ForKafkaPython) | ({"ssl_cafile": self.ca} if self.ca else {})

    def aiokafka(self) -> dict[str, Any]:
        """Returns aiokafka's settings."""
        context = ssl.create_default_context(cafile=self.ca) if self.ca else None
        return self._python(_ForAiokafka) | {"ssl_context": context}

    def _python(self, tokens: Callable[[Callable[[], str]], object]) -> dict[str, Any]:
        found: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        found["sasl_mechanism"] = self.mechanism
        if self.issuer:
            return found | {"sasl_oauth_token_provider": tokens(self._token)}
        if self.keytab:
            return found | {key.replace(".", "_"): text for key, text in SERVICE.items()}
        return found | {"sasl_plain_username": self.user, "sasl_plain_password": self.password}

    def go(self) -> dict[str, Any]:
        """Returns the login as the program of Go's clients reads it (``harness/go``)."""
        return {
            "bootstrap": self.bootstrap, "mechanism": self.mechanism, "user": self.user, "password": self.password,
            "ca": self.ca or "", "token": self._token() if self.issuer else "", "is_token": self.is_token,
        }  # fmt: skip

    def spark(self) -> dict[str, str]:
        """Returns the options of Spark's source and sink."""
        found = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        found |= {"sasl.mechanism": self.mechanism}
        if self.ca:
            found["ssl.truststore.location"] = self.ca
        if self.keytab:
            found |= {"sasl.kerberos.keytab": str(self.keytab), "sasl.kerberos.principal": self.user, **SERVICE}
            return {f"kafka.{key}": text for key, text in found.items()}
        named = {"sasl.username": self.user, "sasl.password": self.password}
        if self.is_token:
            named = {"sasl.jaas.config": self.java()["sasl.jaas.config"]}
        return {f"kafka.{key}": text for key, text in (found | (self._credentials() if self.issuer else named)).items()}

    def _token(self) -> str:
        assert self.issuer is not None
        return self.issuer.token(self.user)


class _ForKafkaPython(KafkaPythonTokens):  # type: ignore[misc]
    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def token(self) -> str:
        return self._make()


class _ForAiokafka(AiokafkaTokens):  # type: ignore[misc]
    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    async def token(self) -> str:
        return self._make()
