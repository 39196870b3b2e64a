"""The context of a request: the client, the API version, and the broker that handles it."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
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
from pybroker.handlers.common.described import DescribedTopics
from pybroker.handlers.common.turns import Turns
from pybroker.log.manager import LogManager
from pybroker.replication.replica_manager import ReplicaManager
from pyclient.protocol.acls import AclOperation, AclResourceType
from pyclient.protocol.apis import Api
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:  # so that a broker without quotas and SASL does not import them
    from cy.quota import Share
    from pybroker.quotas.client_quotas import ClientQuotas
    from pybroker.security.sasl.authentication import Authentication
    from pybroker.security.tokens import KnownTokens

T = TypeVar("T")
MAPPED: Final = "::ffff:"
"""The prefix of an IPv4 address on an IPv6 socket."""


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
    """The id of the broker at the other end, once it has proved that it is one (``cluster.peer_secret``)."""
    authentication: peer_secret.Server | None
    """The broker's proof while it is in progress."""
    sasl: Authentication | None
    """The state of the client's SASL authentication, on SASL listeners only."""
    principal: str
    """The user: ``User:alice``."""
    share: Share | None
    """The client's quotas, cached until quotas change."""
    pinned: bool
    """True if the current request's bytes stay valid as long as they are referenced."""

    def hold(self) -> None:
        """Reads no further requests until ``release`` has been called as often as ``hold``."""
        ...

    def release(self) -> None:
        """Ends a ``hold``."""
        ...


class SaslConnection(Connection, Protocol):
    """A connection of a SASL listener: its ``sasl`` is not None."""

    def on_said(self) -> None:
        """The handler calls it after a successful step of the authentication; ``principal`` may have changed."""
        ...

    async def answer(self, answer: Future[bytes]) -> bytes:
        """Returns a thread's answer to the client's message; reads no requests until then. Raises KafkaError."""
        ...

    async def refuse(self, response: T, error: KafkaError, *, is_due: bool = False) -> T:
        """Returns the response to a failed authentication, and closes the connection after it.

        ``is_due`` is True if the handler had to wait, so that its response is late.
        """
        ...


@contextmanager
def held(connection: Connection) -> Iterator[None]:
    """Holds the connection within ``with``: the broker reads the client's next requests only afterwards."""
    connection.hold()
    try:
        yield
    finally:
        connection.release()


class Peers(Protocol):
    """The way to other brokers, as handlers see it (``pybroker.net.peer``)."""

    async def request(self, node_id: int, message: Message, *, purpose: str = ...) -> Message:
        """Returns the broker's response. Raises KafkaError if it cannot be reached or does not answer in time."""
        ...


class Forwards(Protocol):
    """The part of ``forwarding.Forwarding`` that is used here."""

    async def ask(
        self, api: Api, version: int, client_id: str | None, request: Message, asker: Call | None = None
    ) -> Message:
        """Returns the controller's response. Raises NotController if none could be reached.

        ``asker`` is the context of the client's request, whose rights then apply; None: this broker asks for itself.
        """
        ...


class Authorizer(Protocol):
    """The rights of each principal (``pybroker.security.authorizer``)."""

    version: int
    """A number that grows with each change of an ACL. Cached decisions are valid while it stays the same."""

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
        """Returns True if ``principal`` (``User:alice``) may do the operation from the address ``host``.

        The audit log gets ``request``, the API, and ``count``, how often the request names the resource. Pass
        ``is_told`` False if a denial only leaves something out of the response: such denials are not audited.
        """
        ...

    def authorize_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Returns True if the principal may do the operation on at least one resource of the type."""
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
    """Brokers that may be dead, although their sessions have not expired yet."""
    controller: ControllerService
    replicas: ReplicaManager
    logs: LogManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIds
    authorizer: Authorizer | None
    """The authorizer, None if every client may do everything."""
    known_tokens: KnownTokens | None
    """The delegation tokens; None if the broker has no key for them."""
    quotas: ClientQuotas | None
    """The quotas, None if no client has a quota."""
    unpackers: ThreadPoolExecutor
    """Threads for batches that take long to unpack."""
    turns: Turns
    """Where long requests wait for their next turn."""
    described: DescribedTopics
    """The last description of each topic in a Metadata response."""
    loop: AbstractEventLoop

    @property
    def forwarding(self) -> Forwards:
        """Forwards requests to the controller."""
        ...

    @property
    def peer_secret(self) -> bytes:
        """The secret with which brokers of this cluster prove to each other that they belong to it."""
        ...

    def peer_refusal(self, connection: Connection) -> str | None:
        """Returns why the client on ``connection`` cannot be a broker; None if it may prove it by the secret."""
        ...

    async def try_out(self, settings: Mapping[str, str]) -> None:
        """Loads TLS settings of this broker as if they were stored. Raises ConfigError if they are unusable."""
        ...

    @property
    def peers(self) -> Peers:
        """Requests to other brokers."""
        ...

    def endpoint_for(self, connection: Connection) -> dict[int, tuple[str, int]]:
        """Returns host and port of each live broker, by node id, on the listener of ``connection``."""
        ...


class Call:
    """The context of a request, shared by consecutive requests of a connection to the same API.

    Only its cached decisions of the authorizer change.
    """

    __slots__ = ("api", "broker", "client_id", "connection", "decisions", "version")

    def __init__(
        self, broker: Broker, version: int, client_id: str | None, connection: Connection, api: str = ""
    ) -> None:
        """``api`` is the API's name, for the audit log."""
        self.broker = broker
        self.version = version
        self.client_id = client_id
        self.connection = connection
        self.api = api
        self.decisions: Any = None
        """Cached decisions of the authorizer for this client (``rights.Decisions``)."""

    @property
    def principal(self) -> str:
        """The user that sent the request."""
        return self.connection.principal

    @property
    def host(self) -> str:
        """The client's address; an IPv4 address never has its IPv6 form."""
        return self.connection.peer_address[0].removeprefix(MAPPED)

    @property
    def is_by_token(self) -> bool:
        """True if the user authenticated with a delegation token."""
        return self.connection.sasl is not None and self.connection.sasl.is_by_token

    @property
    def is_of_broker(self) -> bool:
        """True if a broker of this cluster sent the request in its own name."""
        return self.connection.broker_id is not None


class ForwardedCall(Call):
    """The context of a client's request that another broker has forwarded."""

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
        """``connection`` is that of the other broker."""
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
