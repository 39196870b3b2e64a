"""A broker: creates its parts, and opens and closes them in order.

Opening: ports (bound first, so that an occupied port is found before anything else) → coordination store, TLS and
cluster id → logs (claimed and recovered) → partitions → groups → the cluster → listeners. Opening the cluster means
registration, controller and metadata image; partitions get their leaders then. Closing goes in reverse order through
the parts that were opened. No request is served before all parts are open, or after any part is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from pybroker.clock import Clock, SystemClock
from pybroker.cluster import isr_messages
from pybroker.cluster.cluster_id import ClusterMismatch
from pybroker.cluster.decisions.isr_changes import ANY_EPOCH, IsrChange, IsrOutcome
from pybroker.cluster.decisions.plan import NewTopic, Outcome
from pybroker.cluster.metadata.image import DEFAULT_BROKER, Configs, ResourceType
from pybroker.cluster.namesake import BrokerIdTaken
from pybroker.cluster.node import ClusterNode
from pybroker.config import (
    BrokerConfig,
    ConfigError,
    Endpoint,
    advertised_listeners,
    listeners,
    topic_config,
)
from pybroker.config.listeners import ANYWHERE, PLAIN, between_brokers
from pybroker.coordinator.group_nodes import GroupNodes
from pybroker.coordinator.groups import GroupCoordinator
from pybroker.coordinator.transactions import TransactionCoordinator
from pybroker.data_folder import DataFolder
from pybroker.handlers import ROWS, api_versions
from pybroker.handlers.common.call import Authorizer, Call, Connection
from pybroker.handlers.common.create_elsewhere import create_elsewhere
from pybroker.handlers.common.described import DescribedTopics
from pybroker.handlers.common.forwarding import Forwarding
from pybroker.handlers.common.turns import Turns
from pybroker.log.compaction.workers import CompactionWorkers
from pybroker.log.dirs import missing_directories
from pybroker.log.dirs.log_dir import CLEAN_SHUTDOWN, LogDir
from pybroker.log.files import meta_properties
from pybroker.log.files.storage import Storage
from pybroker.log.housekeeping import Housekeeping
from pybroker.log.manager import LogManager, NoLogDir
from pybroker.loop_watch import LoopWatch
from pybroker.net import limits
from pybroker.net.acceptor import BoundSocket, bind
from pybroker.net.peer import Peers
from pybroker.net.quotas.quota_follower import QuotaFollower
from pybroker.net.routes import Routes
from pybroker.net.server import SocketServer
from pybroker.pools import Pools
from pybroker.protection import Protection
from pybroker.replication.replica_manager import ReplicaManager
from pybroker.store.interface import ConnectionLoss, CoordinationStore, NotAllowed, SessionExpired
from pybroker.store.stores import StoreFactory, StoreOptions, open_store
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    from pybroker.quotas.client_quotas import ClientQuotas
    from pybroker.security.acls import AclBinding
    from pybroker.security.sasl.first_users import FirstUser

T = TypeVar("T")

UNPACKERS = 2
GRACE_S = 1.0

logger = logging.getLogger(__name__)


class StartError(Exception):
    """Raised if the broker cannot start. The text is one line with the reason, the place and a remedy."""


class Broker:
    """One broker in this process, on the running event loop.

    From the beginning it has ``config``, ``clock``, ``node_id`` and ``loop``, ``watch`` (which notices a stalled loop),
    and threads for blocking work (``pools``, ``unpackers``). ``start`` adds all other parts. For the cluster these are
    ``cluster_id``, ``metadata``, ``suspects``, ``controller``, ``producer_ids``. For the data: ``logs``, ``replicas``.
    The coordinators: ``groups``, ``transactions``.
    """

    def __init__(
        self,
        config: BrokerConfig,
        folder: DataFolder,
        *,
        clock: Clock | None = None,
        storage: Storage | None = None,
        store: StoreOptions | StoreFactory | None = None,
        first_users: Sequence[FirstUser] = (),
        first_acls: Sequence[AclBinding] = (),
    ) -> None:
        """``store`` is the coordination store, or how to open it; by default a file in ``folder``.

        Before the first client connects, ``first_users`` get their passwords unless they have one, and ``first_acls``
        are created.
        """
        self.config = config
        self.folder = folder
        self._store_place = store or StoreOptions(file=str(folder.store))
        self.clock = clock or SystemClock()
        self.node_id = int(config["node.id"])
        self.loop = asyncio.get_running_loop()
        self.watch = LoopWatch(self.loop)
        self.quotas: ClientQuotas | None = None
        self.unpackers = ThreadPoolExecutor(UNPACKERS, "unpack")
        self.turns = Turns()
        self.described = DescribedTopics()
        self.pools = Pools.threads(config["num.replica.alter.log.dirs.threads"] or len(folder.log_dirs))
        self.protection = Protection(config, self.clock, self.loop, self.pools)
        self.authorizer: Authorizer | None = self.protection.authorizer
        self.known_tokens = self.protection.known_tokens
        self.failed = asyncio.Event()
        """Set when the broker cannot continue: no log dir is left, or another broker has its id."""
        self._storage = storage or Storage()
        self._bound: list[BoundSocket] = []
        self._first_users = first_users
        self._first_acls = first_acls
        self._opened = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Opens the store, the logs and the listeners. Returns when requests are served. Raises StartError,
        ConfigError.
        """
        self._watch_loop()
        self._opened.callback(self.unpackers.shutdown, wait=False, cancel_futures=True)
        self._opened.callback(self.pools.shutdown)
        self._bind()
        try:
            await self._open_cluster()
        except (ConnectionLoss, SessionExpired, NotAllowed) as error:
            text = str(error).removeprefix(f"{self._store_place}: ")
            raise StartError(f"coordination store {self._store_place}: {text}") from error
        was_clean = await self._open_logs()
        self._open_partitions()
        self._open_groups()
        self._open_transactions()
        await self.protection.keys_tried()
        await self._join(was_clean=was_clean)
        self._opened.push_async_callback(self.node.leave)
        self._tell_lost()
        self.metadata.add_follower(self._tell_lost)
        self.replicas.on_lost(self._tell_lost)
        if self._first_users:
            await self._add_users()
        if self._first_acls:
            await self._add_acls()
        self._serve()

    async def stop(self) -> None:
        """Closes everything that ``start`` has opened, in reverse order."""
        await self._opened.aclose()

    # -- opening -----------------------------------------------------------------------------------

    def _watch_loop(self) -> None:
        self.watch.start()
        self._opened.callback(self.watch.stop)

    async def _add_users(self) -> None:
        """Stores the passwords of the first users that have none yet. Raises StartError."""
        from pybroker.handlers.common.security.first_users import add

        try:
            added = await add(self._first_users, self)
        except KafkaError as error:
            raise StartError(f"--add-scram: passwords could not be stored: {error}") from error
        if added:
            logger.info("users that got a password: %s", ", ".join(dict.fromkeys(added)))
        if not any(endpoint.is_sasl for endpoint in listeners(self.config)):
            logger.warning("no listener asks for a password: set listeners=SASL_SSL://… or SASL_PLAINTEXT://…")

    async def _add_acls(self) -> None:
        """Creates the first ACLs that do not exist yet. Raises StartError."""
        from pybroker.handlers.common.security.first_acls import add

        try:
            added = await add(self._first_acls, self)
        except KafkaError as error:
            raise StartError(f"--add-acl: ACLs could not be stored: {error}") from error
        logger.info("%d ACLs were added", added)

    def _bind(self) -> None:
        for endpoint in listeners(self.config):
            try:
                listener = bind(endpoint)
            except OSError as error:
                raise StartError(_cannot_listen(endpoint, error)) from error
            self._opened.callback(listener.close)
            self._bound.append(listener)

    async def _open_cluster(self) -> None:
        """Opens the coordination store, and reads the cluster's id there."""
        self._store = await self._open_store()
        self._opened.push_async_callback(self._store.close)
        await self.protection.open_tls(self._store, self.node_id)
        marks = self._marks()
        own = next((mark.cluster_id for mark in marks.values() if mark.cluster_id), None)
        self.node = await self._open_node(own)
        await self._find_directories(marks)
        self.cluster_id = self.node.cluster_id
        self.metadata = self.node.metadata
        self.metadata.add_listener(self.described.forget)
        self.controller = self.node.controller
        self.producer_ids = self.node.producer_ids
        self.suspects = self.node.suspects
        if self.authorizer is not None or self.known_tokens is not None:
            self.metadata.add_listener(self.protection.on_metadata)  # before other listeners, which may fail
        await self.node.secret.read()
        await self.protection.open_sasl(lambda: self.metadata.image, self.peer_secret, self._opened)
        self.peers = self._make_peers()
        self.metadata.add_listener(self.peers.apply)
        self._opened.callback(self.peers.close)
        self.forwarding = Forwarding(self)

    async def _open_node(self, cluster_id: str | None) -> ClusterNode:
        """Opens this broker's node in its cluster. Raises StartError if its log dirs belong to another cluster."""
        try:
            return await ClusterNode.open(
                self._store,
                self.config,
                self.node_id,
                self.clock,
                cluster_id,
                on_failure=self.failed.set,
                known_producers=self._known_producers,
                create_elsewhere=self._create_elsewhere,
            )
        except ClusterMismatch as error:
            raise StartError(
                f"log dirs {', '.join(self.folder.log_dirs)} belong to cluster {cluster_id}, "
                f"but {error}: choose another --data-dir, or other log.dirs"
            ) from error

    @property
    def peer_secret(self) -> bytes:
        """The secret by which brokers of this cluster recognise each other."""
        return self.node.secret.value

    def peer_refusal(self, connection: Connection) -> str | None:
        """Returns why the client on ``connection`` cannot be a broker, even with the secret; None if it may prove it by
        the secret.
        """
        return self.protection.peer_refusal(connection.listener_name, connection.sasl, connection.principal)

    def _make_peers(self) -> Peers:
        tls = self.protection.tls
        endpoint, between = between_brokers(self.config), None if tls is None else tls.between
        return Peers(
            self.node_id,
            lambda: self.peer_secret,
            self.loop,
            listener=self.config["inter.broker.listener.name"],
            protocol=PLAIN if endpoint is None else endpoint.security_protocol,
            tls=None if between is None else lambda: between.client_context,
            login=self.protection.login,
            receive_buffer=self.config["replica.socket.receive.buffer.bytes"]
            if self.config.is_set("replica.socket.receive.buffer.bytes")
            else -1,
            on_lost=self.suspects.accuse,
        )

    async def _join(self, *, was_clean: bool) -> None:
        """Joins the cluster. When this returns, the partitions have their roles."""
        try:
            await self.node.join(
                {each.endpoint.listener: each.endpoint for each in self._bound},
                self.folder.log_dirs,
                was_clean=was_clean,
                directory_ids=missing_directories.registered(
                    (log_dir.directory_id for log_dir in self.logs.dirs), self._directories.missing
                ),
            )
        except BrokerIdTaken as error:
            raise StartError(str(error)) from error

    def _known_producers(self) -> Iterator[int]:
        return (producer_id for log in self.logs for producer_id in log.producers.ids())

    async def _create_elsewhere(self, topics: Sequence[NewTopic]) -> list[Outcome]:
        return await create_elsewhere(self.forwarding, self.metadata, topics)

    async def _open_store(self) -> CoordinationStore:
        place = self._store_place
        return await (open_store(place, self.watch) if isinstance(place, StoreOptions) else place())

    def _marks(self) -> dict[str, meta_properties.MetaProperties]:
        """Returns the meta.properties of each readable log dir. A new log dir has none yet."""
        marks = {}
        for log_dir in self.folder.log_dirs:
            with contextlib.suppress(OSError, ValueError):
                marks[log_dir] = meta_properties.read(self._storage, log_dir) or meta_properties.NEW
        return marks

    async def _find_directories(self, marks: Mapping[str, meta_properties.MetaProperties]) -> None:
        """Finds out which log dirs are missing. If none is missing, the last process that used them is dead."""
        found = {path: mark.directory_id for path, mark in marks.items()}
        known = await self.node.known_directories()
        self._directories = missing_directories.compare(known, found, self.config["log.dirs.given.up"])
        missing = self._directories.missing
        if missing:
            logger.error("log dirs that this broker had are missing: %s", self._directories.advice)
        ids = [id for id in found.values() if id]
        if len(ids) + len(self._directories.unused) == len(self.folder.log_dirs):
            await self.node.remove_past(missing_directories.registered(ids, missing))

    async def _open_logs(self) -> bool:
        """Opens, and if necessary recovers, every log; returns True after a clean stop."""
        was_clean = all(
            self._storage.exists(f"{log_dir}/{CLEAN_SHUTDOWN}") for log_dir in self.folder.log_dirs
        )
        self.logs = LogManager(
            self.folder.log_dirs,
            self._storage,
            topic_config(self.config, {}),
            self.clock,
            cluster_id=self.cluster_id,
            node_id=self.node_id,
            pools=self.pools,
            recovery_threads_per_dir=self.config["num.recovery.threads.per.data.dir"],
            producer_expiration_ms=self.config["producer.id.expiration.ms"],
            directories=self._directories,
        )
        try:
            await self._on_pool(self.logs.load)
        except (meta_properties.WrongOwner, NoLogDir, ValueError) as error:
            raise StartError(str(error)) from error
        self._opened.push_async_callback(self._on_pool, lambda: self.logs.close(self.node.broker_epoch))
        self.logs.on_dir_failure(self._on_dir_failure)
        return was_clean

    def _open_partitions(self) -> None:
        """Creates the partitions, which get their logs and roles from the first metadata image."""
        self.replicas = ReplicaManager(
            self.node_id, self.logs, self.config, self.clock, self.loop, self.pools
        )
        self._opened.callback(self.replicas.close)
        self.replicas.connect(self.peers, self._alter_partition, lambda: self.metadata.image, self._broker_epoch)
        self.metadata.add_listener(self.replicas.apply)
        self.metadata.add_follower(self.replicas.announce)
        self.controller.deletions.delete_logs = self.replicas.delete_leaving

    def _open_groups(self) -> None:
        """Creates the group coordinator, which loads groups when this broker begins to lead their partitions."""
        self.groups = GroupCoordinator(self.config, self.replicas, self.metadata, self.clock)
        self.replicas.on_leadership(self.groups.runtime.on_leadership)
        self.metadata.add_listener(self.groups.on_metadata)

    def _open_transactions(self) -> None:
        """Creates the transaction coordinator, which loads transactions when this broker begins to lead their
        partitions.
        """
        self.transactions = TransactionCoordinator(
            self.node_id,
            self.config,
            self.replicas,
            self.metadata,
            self.clock,
            self.producer_ids,
            self.groups.runtime,
            self.peers,
        )
        self.groups.transactions = self.transactions
        self.replicas.on_leadership(self.transactions.runtime.on_leadership)

    def _serve(self) -> None:
        """Opens the sockets to requests, and starts the background work."""
        routes = Routes(ROWS, functools.partial(Call, self), api_versions.unsupported)

        def on_connections(count: int) -> None:
            self.logs.cache.lend(limits.spare_descriptors(count))

        self.net = SocketServer(routes, limits.from_config(self.config), self.loop, self.watch, on_connections)
        try:
            self.net.start(self._bound, self.protection.listeners_of_tls, self.protection.sasl)
        except OSError as error:
            raise StartError(_cannot_listen(self._bound[0].endpoint, error)) from error
        self._opened.push_async_callback(self.net.close, GRACE_S)
        self._follow_quotas()
        self._opened.callback(self.groups.close)
        if self.config["zookeeper.connect"]:
            nodes = GroupNodes(self._store, self.groups.runtime.loaded_shards, self.clock)
            nodes.start()
            self._opened.push_async_callback(nodes.stop)
        self._opened.callback(self.transactions.close)
        self.config.on_change(self._on_config_change)
        self.protection.watch_files(self._opened)
        housekeeping = Housekeeping(self.logs, self.config, self.clock, self.pools.upkeep)
        housekeeping.start()
        self._opened.push_async_callback(housekeeping.stop)
        compaction = CompactionWorkers(self.logs, self.config, self.clock, self.loop)
        compaction.start()
        self._opened.push_async_callback(compaction.stop)
        self._opened.push_async_callback(self.node.retire)

    def _follow_quotas(self) -> None:
        """Applies quotas, now and after each change of this broker's metadata."""

        def on_change(quotas: ClientQuotas | None) -> None:
            self.quotas = quotas

        follower = QuotaFollower(self.config, self.clock, self.loop, self.net, on_change)
        follower.follow(self.metadata.image)
        self.metadata.add_follower(lambda: follower.follow(self.metadata.image))
        self.config.on_change(follower.on_config_change)

    async def _alter_partition(self, broker_epoch: int, changes: Sequence[IsrChange]) -> list[IsrOutcome]:
        """Asks the controller, here or on another broker, to change in-sync replicas. Raises KafkaError."""
        controller = self.metadata.image.controller_id
        if controller == self.node_id:
            return await self.controller.alter_partition(self.node_id, broker_epoch, changes)
        request = isr_messages.request_of(self.node_id, broker_epoch, changes)
        return isr_messages.outcomes_of(changes, await self.peers.request(controller, request))

    def _broker_epoch(self) -> int:
        """Returns the epoch of this broker's registration; -1 if its metadata do not have the registration yet."""
        own = self.replicas.partitions.image.brokers.get(self.node_id)
        return own.epoch if own is not None and own.epoch == self.node.broker_epoch else ANY_EPOCH

    # -- while it runs -----------------------------------------------------------------------------

    def endpoint_for(self, connection: Connection) -> dict[int, tuple[str, int]]:
        """Returns host and port of every live broker, for the client on ``connection``."""
        return self.node.addresses(connection.listener_name, connection.local_address)

    def addresses(self) -> list[tuple[str, int]]:
        """Returns the address for clients on this machine: the broker's first listener."""
        endpoint = self._bound[0].endpoint
        told = advertised_listeners(self.config).get(endpoint.listener, endpoint)
        host = "127.0.0.1" if told.host in ANYWHERE else told.host
        return [(host, told.port or endpoint.port)]

    def listeners(self) -> str:
        """Returns the value of ``listeners`` with the real ports."""
        return ",".join(str(each.endpoint) for each in self._bound)

    async def try_out(self, settings: Configs) -> None:
        """Raises ConfigError if this broker cannot use these TLS settings as its own settings in the store."""
        await self.protection.try_out(settings, self.metadata.image.configs(ResourceType.BROKER, DEFAULT_BROKER))

    def _on_config_change(self, names: frozenset[str]) -> None:
        """Applies new limits of connections to later connections."""
        if any(limits.CONNECTIONS in name for name in names):
            try:
                self.net.limit(limits.from_config(self.config))
            except ConfigError as error:
                logger.error("the connection limits stay unchanged: %s", error)

    def _on_dir_failure(self, log_dir: LogDir) -> None:
        """Handles a failed log dir; may be called on any thread."""
        self.loop.call_soon_threadsafe(self._on_lost_dir)

    def _tell_lost(self) -> None:
        """Asks the controller to let other brokers lead the partitions that are on no working disk here."""
        self.node.tell_lost(self.replicas.partitions.lost())

    def _on_lost_dir(self) -> None:
        """Tells the controller about a lost log dir, then stops the broker if no log dir is left."""
        self._tell_lost()
        if self.logs.all_failed:
            logger.critical("every log dir has failed: stopping")
            self.failed.set()

    async def _on_pool(self, work: Callable[..., T], *arguments: object) -> T:
        return await self.loop.run_in_executor(self.pools.changes, work, *arguments)


def _cannot_listen(endpoint: Endpoint, error: OSError) -> str:
    """Returns why a listener cannot be opened, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {endpoint.port} on {endpoint.host or 'every interface'} is taken: "
            "choose another --port, or --port 0 for a free one"
        )
    if error.errno == errno.EACCES:
        return f"this user may not use port {endpoint.port}: choose a --port above 1023"
    return f"listener {endpoint}: {error.strerror or error}: check --host (listeners)"
