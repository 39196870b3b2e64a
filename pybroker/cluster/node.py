"""This broker's parts for the cluster: store, image, controller, membership."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypedDict, Unpack

import msgspec

from pybroker.clock import Clock
from pybroker.cluster.auto_creation import Create
from pybroker.cluster.cluster_id import join_cluster
from pybroker.cluster.cluster_secret import ClusterSecret
from pybroker.cluster.controller import ControllerService
from pybroker.cluster.decisions import features
from pybroker.cluster.decisions.topics import TopicController
from pybroker.cluster.endpoints import (
    Address,
    addresses,
    boot_of_machine,
    name_of_machine,
    registered,
)
from pybroker.cluster.membership import Membership
from pybroker.cluster.metadata import journal, znodes
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataImage
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.cluster.namesake import remove_past
from pybroker.cluster.nodes.loading import NOT_OURS
from pybroker.cluster.producer_ids import ProducerIds
from pybroker.cluster.suspects import Suspects
from pybroker.config import BrokerConfig, Endpoint, advertised_listeners
from pybroker.store.interface import CoordinationError, CoordinationStore, SessionExpired, SessionState
from pyclient.protocol.errors import KafkaError
from pyclient.protocol.uuids import random_uuid, to_base64

RETIREMENT_S = 10.0

_log = logging.getLogger(__name__)


class Callbacks(TypedDict, total=False):
    """The callbacks of a node to its broker."""

    on_failure: Callable[[], object]
    known_producers: Callable[[], Iterable[int]]
    create_elsewhere: Create


class ClusterNode:
    """Has ``metadata``, ``suspects``, ``controller``, ``producer_ids`` and ``secret`` of one broker. Call ``join`` when
    the broker can serve.

    Before that, add to ``metadata`` the listeners that make logs and follow leaderships.
    """

    def __init__(
        self,
        store: CoordinationStore,
        config: BrokerConfig,
        node_id: int,
        clock: Clock,
        cluster_id: str,
        *,
        on_failure: Callable[[], object] = lambda: None,
        known_producers: Callable[[], Iterable[int]] = tuple,
        create_elsewhere: Create | None = None,
    ) -> None:
        """``on_failure()`` is called when this broker cannot stay in the cluster and should stop; the log tells why.

        ``known_producers()`` returns the producer ids in this broker's logs; it is called from ``join`` on.
        ``create_elsewhere``: see ``ControllerService``.
        """
        self.cluster_id = cluster_id
        self.metadata = MetadataCache(MetadataImage(cluster_id=cluster_id))
        self.producer_ids = ProducerIds(store, node_id)
        self.secret = ClusterSecret(store)
        self.suspects = Suspects(self.metadata, clock)
        chance = random.Random()
        self.controller = ControllerService(
            store,
            self.metadata,
            config,
            node_id,
            TopicController(config, random_uuid, lambda: chance.randrange(1 << 16)),
            create_elsewhere,
        )
        self._store = store
        self._config = config
        self._node_id = node_id
        self._clock = clock
        self._advertised = advertised_listeners(config)
        self.known_producers = known_producers
        self.on_failure = on_failure
        self._membership: Membership | None = None
        self._lost: frozenset[tuple[bytes, int]] = frozenset()
        self._looking: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls,
        store: CoordinationStore,
        config: BrokerConfig,
        node_id: int,
        clock: Clock,
        own_cluster_id: str | None = None,
        **callbacks: Unpack[Callbacks],
    ) -> ClusterNode:
        """Reads or creates the cluster's id, and returns the node. Raises ClusterMismatch if ``own_cluster_id``
        differs.

        ``callbacks`` are those of the constructor.
        """
        found = await join_cluster(store, own_cluster_id, lambda: to_base64(random_uuid()))
        return cls(store, config, node_id, clock, found, **callbacks)

    async def remove_past(self, directory_ids: Iterable[str]) -> None:
        """Removes the registration of the last process on these log dirs. It is dead: this process has their locks."""
        await remove_past(self._store, self._node_id, _boot(directory_ids))

    async def known_directories(self) -> list[str]:
        """Returns the log dir ids of this broker's last registration; none if they are unreadable."""
        [found] = await self._store.get_many([znodes.KNOWN])
        try:
            boots = journal.decode_known(found[0] if found else b"").boots
        except (*NOT_OURS, msgspec.MsgspecError):
            return []
        return boots.get(self._node_id, "").split(" ")[1:]

    async def join(
        self,
        listeners: Mapping[str, Endpoint],
        log_dirs: tuple[str, ...] = (),
        *,
        was_clean: bool = False,
        directory_ids: Iterable[str] = (),
    ) -> None:
        """Registers with the bound ``listeners`` (by name, real ports) and publishes the image.

        When it returns, all parts that follow ``metadata`` have applied the image. ``was_clean`` tells that the logs
        were closed in order, so that leader epochs need not grow. As long as the machine and the ``directory_ids`` stay
        the same, all written records exist.
        """
        endpoints = registered(listeners, self._advertised)
        self._advertised = self._of_kerberos(endpoints) | self._advertised  # Kerberos names a service by its host
        registration = BrokerRegistration(
            self._node_id,
            0,
            endpoints,
            self._config["broker.rack"],
            log_dirs,
            was_clean,
            _boot(directory_ids),
            min_isr=self._config.static("min.insync.replicas"),
            machine=name_of_machine(),
            features=features.registered(),
        )
        self._membership = Membership(
            self._store,
            self.controller,
            self.metadata,
            registration,
            self._clock,
            self.secret,
            self.on_failure,
            self._config["zookeeper.session.timeout.ms"] if self._config["zookeeper.connect"] else 0,
            lambda: self.producer_ids.skip(self.known_producers()),
        )
        await self._membership.join()
        self._looking.append(asyncio.ensure_future(self._look_now_and_then(self._membership)))
        if self._config["delegation.token.secret.key"]:
            self._looking.append(asyncio.ensure_future(self._expire_tokens_now_and_then()))

    def _of_kerberos(self, endpoints: Iterable[Endpoint]) -> dict[str, Endpoint]:
        """Returns the endpoints, by listener, whose clients may log in by GSSAPI."""
        by_sasl = [each for each in endpoints if each.is_sasl]
        if not by_sasl:
            return {}
        from pybroker.config.sasl_listeners import has_kerberos  # so that a broker without SASL does not import it

        return {each.listener: each for each in by_sasl if has_kerberos(self._config, each.listener)}

    async def _look_now_and_then(self, membership: Membership) -> None:
        """Checks regularly whether incomplete topics are complete again, and whether preferred leaders should lead
        again.
        """
        while True:
            await asyncio.sleep(self._config["leader.imbalance.check.interval.seconds"])
            try:
                await membership.look_at_store()
                if self.controller.is_controller and self._config["auto.leader.rebalance.enable"]:
                    await self.controller.rebalance()
            except (KafkaError, CoordinationError) as error:
                _log.warning("the regular check of the metadata failed: %s: %s", type(error).__name__, error)
            except Exception:
                _log.exception("the regular check of the metadata failed unexpectedly")

    async def _expire_tokens_now_and_then(self) -> None:
        """Removes expired delegation tokens regularly, if this broker is the controller."""
        while True:
            await asyncio.sleep(self._config["delegation.token.expiry.check.interval.ms"] / 1000)
            try:
                await self.expire_tokens()
            except (KafkaError, CoordinationError) as error:
                _log.warning("expired delegation tokens could not be removed: %s: %s", type(error).__name__, error)
            except Exception:
                _log.exception("the removal of expired delegation tokens failed unexpectedly")

    async def expire_tokens(self) -> None:
        """Removes expired delegation tokens, if this broker is the controller."""
        from pybroker.cluster.decisions.token_changes import remove_expired  # a broker without tokens saves this import

        now_ms = self._clock.now_ms()
        tokens = self.metadata.image.tokens.values()
        if self.controller.is_controller and any(each.is_expired(now_ms) for each in tokens):
            await self.controller.change_tokens(lambda image: remove_expired(image, now_ms))

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 before there is one."""
        return -1 if self._membership is None else self._membership.broker_epoch

    async def retire(self) -> None:
        """Begins a controlled shutdown: lets other brokers lead the partitions of this broker, as far as they can."""
        if self._membership is None:
            return
        try:
            async with asyncio.timeout(RETIREMENT_S):
                await self._while_store_lives(self._membership.retire())
        except (TimeoutError, CoordinationError) as error:
            _log.warning("could not hand over leaderships: %s", error or "no answer")

    async def _while_store_lives(self, work: Coroutine[Any, Any, None]) -> None:
        """Awaits ``work`` as long as there is a session. If the store is lost, a stopping broker does not wait until
        the others notice.

        Raises SessionExpired.
        """
        over = asyncio.Event()
        session = self._store.session
        session.on_change(lambda state: over.set() if state is SessionState.EXPIRED else None)
        if session.state is SessionState.EXPIRED:
            over.set()
        working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(over.wait())
        try:
            await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            if not working.done():
                working.cancel()
        if not working.done():
            raise SessionExpired("the session with the coordination store has expired")
        working.result()

    def tell_lost(self, replicas: frozenset[tuple[bytes, int]]) -> None:
        """Reports that these replicas (topic id, index) are on no working disk here, so that other brokers lead them.
        """
        if self._membership is not None and replicas != self._lost:
            self._lost = replicas
            self._membership.announce(offline=replicas)

    def addresses(self, listener: str, local: Address) -> dict[int, Address]:
        """Returns host and port by node id of every broker, for a client of ``listener``.

        ``local`` is the local address of the client's connection. The client gets it if ``advertised.listeners`` is
        unset and no host name is required.
        """
        return addresses(self.metadata.image, listener, self._node_id, self._advertised, local)

    async def leave(self) -> None:
        """Leaves the cluster. The store stays open; closing it removes the registration."""
        for task in self._looking:
            task.cancel()
        self.controller.deletions.close()
        if self._membership is not None:
            await self._membership.leave()


def _boot(directory_ids: Iterable[str]) -> str:
    """Returns an id of the machine's start and of the log dirs. While the id is the same, all written data exist."""
    return " ".join([boot_of_machine(), *sorted(directory_ids)])
