"""A real Kafka with an authorizer, users and delegation tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from harness.brokers import RealKafka, free_port
from pyclient.tests.brokers import QUICK

USERS: Final = ("admin", "alice", "bob")
PASSWORD: Final = "hush"
MODULES: Final = "org.apache.kafka.common.security"


class GuardedKafka(RealKafka):
    """Clients of the plain listener and ``admin`` may do everything, and the other users what ACLs allow. The users
    come by PLAIN, and owners of tokens by SCRAM.
    """

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.port, self.guarded_port = free_port(), free_port()
        self.config |= QUICK

    @property
    def guarded(self) -> str:
        """The address of the listener that asks for a name."""
        return f"{self.host}:{self.guarded_port}"

    def _properties(self) -> dict[str, str]:
        known = super()._properties()
        own = f"PLAINTEXT://{self.host}:{self.port},SASL_PLAINTEXT://{self.guarded}"
        users = " ".join(f'user_{name}="{PASSWORD}"' for name in USERS)
        listener = "listener.name.sasl_plaintext"
        return known | {
            "listeners": f"{own},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": own,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            f"{listener}.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {users};",
            f"{listener}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "delegation.token.secret.key": "secret",
        }


def by_name(user: str) -> dict[str, Any]:
    """The settings of a client that comes as this user."""
    named = {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": PASSWORD}
    return {"security_protocol": "SASL_PLAINTEXT", **named}
