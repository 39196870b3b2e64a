"""Adapts Go's clients, franz-go and kafka-go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from conformance.drivers.logins import Login
from conformance.security.base import Acl, Administrator, Client, Refused
from harness.clients import go_clients
from harness.clients.go_clients import GoError

FRANZ_REFUSALS = {
    "topic": "TOPIC_AUTHORIZATION_FAILED",
    "group": "GROUP_AUTHORIZATION_FAILED",
    "transactional id": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "cluster": "CLUSTER_AUTHORIZATION_FAILED",
    "login": "SASL_AUTHENTICATION_FAILED",
}
KAFKA_GO_REFUSALS = {
    "topic": "Topic Authorization Failed",
    "group": "Group Authorization Failed",
    "cluster": "Cluster Authorization Failed",
    "login": "SASL Authentication Failed",
}
REFUSALS = {"franz-go": FRANZ_REFUSALS, "kafka-go": KAFKA_GO_REFUSALS}


class Password(NamedTuple):
    """A password of SCRAM, as brokers describe it."""

    mechanism: str
    iterations: int


class GoClient(Client):
    def __init__(self, library: str) -> None:
        self._library = library
        self.refusals = REFUSALS[library]
        if library == "kafka-go":  # Its writer asks for all topics, and misses those that are hidden.
            self.refusal_of_hidden_topics = "Unknown Topic Or Partition"

    def write(self, login: Login, topic: str, value: bytes, *, idempotent: bool = False) -> None:
        _asked(self._library, login, "write", topic=topic, value=value.decode(), idempotent=idempotent)

    def throttled_ms(self, login: Login, topic: str, value: bytes) -> int:
        """Writes one record, and returns how long the broker makes the client wait."""
        waited: int = _asked(self._library, login, "write", topic=topic, value=value.decode(), is_timed=True)
        return waited

    def read(self, login: Login, topic: str, group: str, count: int = 1) -> list[bytes]:
        values: list[str] = _asked(self._library, login, "read", topic=topic, group=group, count=count)
        return [value.encode() for value in values]

    def transact(self, login: Login, topic: str, transactional_id: str) -> None:
        _asked(self._library, login, "transact", topic=topic, transactional_id=transactional_id)


class GoAdministrator(Administrator):
    def __init__(self, library: str) -> None:
        self._library = library

    def create(self, login: Login, acls: Sequence[Acl]) -> None:
        self._ask(login, "create ACLs", acls=[acl._asdict() for acl in acls])

    def describe(self, login: Login, kind: str, name: str) -> set[Acl]:
        return {Acl(**words) for words in self._ask(login, "describe ACLs", kind=kind, name=name) or ()}

    def delete(self, login: Login, acl: Acl) -> None:
        assert [Acl(**words) for words in self._ask(login, "delete ACL", acls=[acl._asdict()])] == [acl]

    def store_password(self, login: Login, user: str, password: str, kind: Password) -> None:
        """Stores a user's password for one mechanism of SCRAM."""
        self._ask(login, "store password", user=user, password=password, **kind._asdict())

    def passwords(self, login: Login, user: str) -> set[Password]:
        """Returns a user's passwords for SCRAM."""
        return {Password(**words) for words in self._ask(login, "describe passwords", user=user) or ()}

    def delete_password(self, login: Login, user: str, mechanism: str) -> None:
        """Deletes a user's password for one mechanism of SCRAM."""
        self._ask(login, "delete password", user=user, mechanism=mechanism)

    def set_quotas(self, login: Login, user: str, quotas: Mapping[str, float]) -> None:
        """Sets quotas of a user."""
        self._ask(login, "alter quotas", user=user, quotas=quotas)

    def remove_quotas(self, login: Login, user: str, keys: Sequence[str]) -> None:
        """Removes quotas of a user."""
        self._ask(login, "alter quotas", user=user, removed=keys)

    def quotas(self, login: Login, user: str) -> dict[str, float]:
        """Returns a user's quotas."""
        found: dict[str, float] = self._ask(login, "describe quotas", user=user)
        return found

    def _ask(self, login: Login, call: str, **arguments: object) -> Any:
        return _asked(self._library, login, call, **arguments)


def _asked(library: str, login: Login, call: str, **arguments: object) -> Any:
    try:
        return go_clients.ask(library, call, login=login.go(), **arguments)
    except GoError as raised:
        raise Refused(raised.name, raised) from raised
