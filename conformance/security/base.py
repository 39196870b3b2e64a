"""The interface of a client that the tests need, and the error by which the client reports a refusal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from conformance.drivers.logins import Login

PATIENCE_S = 60.0
ANY_HOST = "*"


class Refused(Exception):
    """The broker has refused a request; ``name`` is the client's own name of the error."""

    def __init__(self, name: str, text: object = "") -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


class Acl(NamedTuple):
    """An ACL for every host; the words are Kafka's."""

    principal: str
    operation: str
    kind: str
    name: str
    pattern: str = "LITERAL"
    permission: str = "ALLOW"


class Client(ABC):
    """A client library whose logins and ACLs are tested."""

    #: The library's names of the errors that refuse a topic, a group, a transactional id, the cluster and a login.
    refusals: dict[str, str]
    #: Its name of the error about a topic that it may not even see, if it differs.
    refusal_of_hidden_topics: str | None = None
    #: Says whether its consumer raises if it may not even see a topic.
    tells_of_hidden_topics = True

    def refusal_of(self, resource: str) -> str:
        """Returns the library's name of the error that refuses it: a kind of ``refusals``, or ``hidden topic``."""
        if resource == "hidden topic":
            return self.refusal_of_hidden_topics or self.refusals["topic"]
        return self.refusals[resource]

    @abstractmethod
    def write(self, login: Login, topic: str, value: bytes, *, idempotent: bool = False) -> None:
        """Writes one record.

        Raises:
            Refused: the broker does not allow it.
        """

    @abstractmethod
    def read(self, login: Login, topic: str, group: str, count: int = 1) -> list[bytes]:
        """Reads the first values as a member of the group, and commits.

        Raises:
            Refused: the broker does not allow it.
        """

    @abstractmethod
    def transact(self, login: Login, topic: str, transactional_id: str) -> None:
        """Writes one record in a transaction.

        Raises:
            Refused: the broker does not allow it.
        """


class Administrator(ABC):
    """A library's administration; it raises Refused if the broker does not authorize the user."""

    @abstractmethod
    def create(self, login: Login, acls: Sequence[Acl]) -> None:
        """Creates ACLs as this login."""

    @abstractmethod
    def describe(self, login: Login, kind: str, name: str) -> set[Acl]:
        """Returns the ACLs of the resource: literal ones, and those of a prefix of its name."""

    @abstractmethod
    def delete(self, login: Login, acl: Acl) -> None:
        """Deletes one ACL as this login."""
