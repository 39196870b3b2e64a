"""The context of a request: the client, the API version, and the broker that handles it."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from cy.wire.messages import Message
from pybroker.clock import Clock
from pybroker.cluster import peer_secret
from pybroker.cluster.controller import ControllerService
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.cluster.producer_ids import ProducerIds
from pybroker.cluster.suspects import Suspects
from pybroker.config import BrokerConfig
from pybroker.coordinator.groups import GroupCoordinator
from pybroker.coordinator.transactions import TransactionCoordinator
from pybroker.handlers.common.turns import Turns
from pybroker.log.manager import LogManager
from pybroker.replication.replica_manager import ReplicaManager
from pyclient.protocol.acls import AclOperation, AclResourceType
from pyclient.protocol.apis import Api
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:  # they cost a broker without quotas and SASL nothing
    from cy.quota import Share
    from pybroker.quotas.client_quotas import ClientQuotas
    from pybroker.security.authentication import Authentication
    from pybroker.security.tokens import KnownTokens

T = TypeVar("T")
MAPPED: Final = "::ffff:"
"""Begins an address of IPv4 as a socket of IPv6 has it."""


class Connection(Protocol):
    """A client's connection, as handlers see it."""

    id: str
    """Unique among the broker's connections: ``local-remote-number`` as in Kafka's logs."""
    listener_name: str
    local_address: tuple[str, int]
    peer_address: tuple[str, int]
    client_software_name: str
    client_software_version: str
    broker_id: int | None
    """The broker of this cluster at the other end, once it has proved itself (``cluster.peer_secret``)."""
    authentication: peer_secret.Server | None
    """The proof that is under way."""
    sasl: Authentication | None
    """How the client says who it is, on listeners where it has to."""
    principal: str
    """The user: ``User:alice``."""
    share: Share | None
    """The quotas that held for the client when they were last looked for."""
    pinned: bool
    """The bytes of the request that is being handled stay as long as they are referenced."""

    def hold(self) -> None:
        """No further request is read until ``release`` has been called as often."""
        ...

    def release(self) -> None:
        """Ends a ``hold``."""
        ...


class SaslConnection(Connection, Protocol):
    """One that has ``sasl``."""

    def on_said(self) -> None:
        """What the client has said was right; ``principal`` may be another now."""
        ...

    async def refuse(self, response: T, error: KafkaError) -> T:
        """The response to who could not say who it is, after which its connection ends."""
        ...


@contextmanager
def held(connection: Connection) -> Iterator[None]:
    """Holds the connection within ``with``: what this client sends meanwhile is served afterwards."""
    connection.hold()
    try:
        yield
    finally:
        connection.release()


class Peers(Protocol):
    """The way to other brokers, as handlers see it (``pybroker.net.peer``)."""

    async def request(self, node_id: int, message: Message, *, purpose: str = ...) -> Message:
        """The response. Raises KafkaError where the broker cannot be reached or does not answer in time."""
        ...


class Forwards(Protocol):
    """The part of ``forwarding.Forwarding`` that is used here."""

    async def ask(
        self, api: Api, version: int, client_id: str | None, request: Message, asker: Call | None = None
    ) -> Message:
        """The controller's response. Raises NotController where none could be reached.

        ``asker``: the context of the client's request, by whose rights it is done; None: this broker asks for itself.
        """
        ...


class Authorizer(Protocol):
    """What each principal may do (``pybroker.security.authorizer``)."""

    version: int
    """Grows with each change of an ACL: decisions that are kept count while it is the same."""

    def authorize(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        request: str = "",
        count: int = 1,
        is_told: bool = True,
    ) -> bool:
        """Whether ``principal`` (``User:alice``), who comes from the address ``host``, may do it.

        ``request`` and ``count`` are for the audit log: the API, and how often it names the resource. What is only
        left out of an answer, without an error, is not told there.
        """
        ...

    def authorize_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Whether the principal may do it to any resource of the kind."""
        ...


class Broker(Protocol):
    """The broker, as handlers see it. ``pybroker.server`` builds the real one; tests use small
    fakes.
    """

    node_id: int
    cluster_id: str
    clock: Clock
    config: BrokerConfig
    metadata: MetadataCache
    suspects: Suspects
    """Brokers that may just have died."""
    controller: ControllerService
    replicas: ReplicaManager
    logs: LogManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIds
    authorizer: Authorizer | None
    """None where everybody may do everything."""
    known_tokens: KnownTokens | None
    """Delegation tokens; None where there are none."""
    quotas: ClientQuotas | None
    """None where no client has a quota."""
    unpackers: ThreadPoolExecutor
    """For batches that take long to unpack."""
    turns: Turns
    """Where long requests wait for their next turn."""
    loop: AbstractEventLoop

    @property
    def forwarding(self) -> Forwards:
        """How the controller is asked."""
        ...

    @property
    def peer_secret(self) -> bytes:
        """By which brokers of this cluster prove to each other that they are."""
        ...

    def peer_refusal(self, connection: Connection) -> str | None:
        """Why the client on ``connection`` is no broker, whatever it knows; None where the secret decides."""
        ...

    async def try_out(self, settings: Mapping[str, str]) -> None:
        """Raises ConfigError where this broker could not have these settings of TLS, its own in the store."""
        ...

    @property
    def peers(self) -> Peers:
        """Requests to other brokers."""
        ...

    def endpoint_for(self, connection: Connection) -> dict[int, tuple[str, int]]:
        """Host and port of every live broker, by node id, as the client on ``connection`` should
        reach it.
        """
        ...


class Call:
    """One request's context. Shared by consecutive requests of a connection to the same API: after it is made, only
    what it remembers of the authorizer changes.
    """

    __slots__ = ("api", "broker", "client_id", "connection", "decisions", "version")

    def __init__(
        self, broker: Broker, version: int, client_id: str | None, connection: Connection, api: str = ""
    ) -> None:
        """``api``: its name, for the audit log."""
        self.broker = broker
        self.version = version
        self.client_id = client_id
        self.connection = connection
        self.api = api
        self.decisions: Any = None
        """What the authorizer has said of this client before (``rights.Decisions``)."""

    @property
    def principal(self) -> str:
        """The user that asks."""
        return self.connection.principal

    @property
    def host(self) -> str:
        """The address that the client comes from; one of IPv4 in its own form, whatever the socket is."""
        return self.connection.peer_address[0].removeprefix(MAPPED)

    @property
    def is_by_token(self) -> bool:
        """True where a delegation token says who the user is."""
        return self.connection.sasl is not None and self.connection.sasl.is_by_token

    @property
    def is_of_broker(self) -> bool:
        """True where a broker of this cluster asks for itself."""
        return self.connection.broker_id is not None


class ForwardedCall(Call):
    """The context of a client's request that another broker has handed on."""

    __slots__ = ("_host", "_is_by_token", "_principal")

    def __init__(
        self,
        broker: Broker,
        version: int,
        client_id: str | None,
        connection: Connection,
        principal: str,
        host: str,
        is_by_token: bool = False,
        api: str = "",
    ) -> None:
        """``connection``: that of the other broker."""
        super().__init__(broker, version, client_id, connection, api)
        self._principal = principal
        self._host = host
        self._is_by_token = is_by_token

    @property
    def principal(self) -> str:
        return self._principal

    @property
    def host(self) -> str:
        return self._host

    @property
    def is_by_token(self) -> bool:
        return self._is_by_token

    @property
    def is_of_broker(self) -> bool:
        return False
