"""Brokers with authentication and ACLs: ours and the real one.

Clients of the plain listener and ``admin`` may do everything; ACLs authorize the other users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness import peers
from harness.servers.brokers import Broker, OurBroker, RealKafka, free_port

USERS: Final = ("admin", "alice", "bob")
PASSWORD: Final = "hush"
MODULES: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "kafka"
ALLOWED_URLS: Final = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="


def jaas(mechanism: str, **options: str) -> str:
    """Returns ``sasl.jaas.config`` as Java reads it."""
    words = "".join(f' {name}="{text}"' for name, text in options.items())
    return f"{MODULES}.{LOGIN_MODULES[mechanism]} required{words};"


class Guarded(Broker):
    """Adds listeners with authentication: SASL_PLAINTEXT, and SASL_SSL if there is a key store.

    ``users`` log in by PLAIN. By SCRAM, users with a stored password and owners of delegation tokens log in.
    OAUTHBEARER is enabled if there is a file of public keys (JWKS).
    """

    def __init__(
        self, data_dir: Path, *, users: Sequence[str] = USERS, store: Path | None = None, keys: Path | None = None
    ) -> None:
        super().__init__(data_dir)
        self.port = free_port()
        self.keys = keys
        protocols = ("SASL_PLAINTEXT", "SASL_SSL") if store else ("SASL_PLAINTEXT",)
        self.addresses = {protocol: f"{self.host}:{free_port()}" for protocol in protocols}
        """The addresses of the listeners with authentication, by security protocol."""
        mechanisms = [each for each in LOGIN_MODULES if keys or each != "OAUTHBEARER"]
        options: dict[str, dict[str, str]] = {mechanism: {} for mechanism in mechanisms}
        options["PLAIN"] = {f"user_{name}": PASSWORD for name in users}
        self.config |= {
            "sasl.enabled.mechanisms": ",".join(mechanisms),
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:ANONYMOUS;User:admin",
            "delegation.token.secret.key": "secret",
            **{
                f"listener.name.{protocol.lower()}.{mechanism.lower()}.sasl.jaas.config": jaas(mechanism, **given)
                for protocol in protocols
                for mechanism, given in options.items()
            },
        }
        if store:
            self.config |= {"ssl.keystore.location": str(store), "ssl.keystore.type": "PEM"}
        if keys:
            self.config |= {
                "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
            }

    @property
    def guarded(self) -> str:
        """The address of the listener with authentication and without TLS."""
        return self.addresses["SASL_PLAINTEXT"]

    @property
    def listeners(self) -> dict[str, str]:
        return super().listeners | self.addresses


class GuardedBroker(Guarded, OurBroker):
    """Our broker with authentication and ACLs."""


class GuardedKafka(Guarded, RealKafka):
    """A real Kafka with authentication and ACLs."""

    def _properties(self) -> dict[str, str]:
        handler = f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        protocols = self.addresses if self.keys else ()
        key = "listener.name.{}.oauthbearer.sasl.server.callback.handler.class"
        return super()._properties() | {key.format(protocol.lower()): handler for protocol in protocols}

    def _command(self) -> list[str]:
        options = [f"{ALLOWED_URLS}{self.keys.as_uri()}"] if self.keys else []
        return [*peers.jvm(self.heap, options), "kafka.Kafka", str(self._properties_file)]


GUARDED: Final[Mapping[str, type[Guarded]]] = {"ours": GuardedBroker, "kafka": GuardedKafka}
