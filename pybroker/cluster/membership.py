"""This broker's membership in the cluster: its registration, its candidacy for controller, its view of other brokers.

``join`` registers the broker (ephemeral /brokers/ids/N), stands for controller, loads the image and publishes it.
Afterwards watches keep all this up to date. They tell the controller which brokers come and go, so that it holds
elections. They let this broker stand for controller when the controller vanishes, and begin a new session when the old
one has expired.

Invariants:

- Work that a watch starts runs one after the other (``work_queue``). Failed work is repeated after a pause that grows.
- A broker does not rejoin a store that has lost its contents, or that belongs to another cluster. It continues with
  its image and waits for the contents to come back, or stops.
- A broker that is not the controller publishes no image before the controller has seen its registration. So it leads
  the partitions that it led before it stopped only if it is elected again.
- With a *doubtful* image this broker neither begins a term nor begins to follow the journal. It reads the whole store
  first, even if its image has a larger version.
- The image is doubtful after an expired session: the store may have been replaced or restored from a backup, and its
  journal then continues from the backup. The image is also doubtful after a term that the store has refused, because a
  difference from the store would make every term fail. The pause before the next term grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from pybroker.clock import Clock
from pybroker.cluster import cluster_secret
from pybroker.cluster.cluster_id import check_cluster
from pybroker.cluster.cluster_secret import ClusterSecret
from pybroker.cluster.controller import ControllerService
from pybroker.cluster.following import Following, newest
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataImage
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.cluster.namesake import BrokerIdTaken, make_room
from pybroker.cluster.nodes.controller_election import Leadership, become_controller, give_up
from pybroker.cluster.nodes.loading import load_brokers, load_deleted, load_unknown_topics
from pybroker.cluster.owner_process import own_process
from pybroker.cluster.work_queue import LARGEST_EXPONENT, Work, WorkQueue
from pybroker.store.interface import (
    ConnectionLoss,
    CoordinationError,
    CoordinationStore,
    Create,
    Delete,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionState,
    Watch,
)
from pyclient.protocol.errors import KafkaError

RETRY_S = 0.2
LONGEST_REST_S = 5.0

_log = logging.getLogger(__name__)


class Membership:
    """Keeps one broker in the cluster."""

    def __init__(
        self,
        store: CoordinationStore,
        service: ControllerService,
        cache: MetadataCache,
        registration: BrokerRegistration,
        clock: Clock,
        secret: ClusterSecret,
        on_failure: Callable[[], object] = lambda: None,
        session_timeout_ms: int = 0,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``on_failure()`` is called if this broker cannot stay in the cluster, for example because another one has its
        id.

        ``prepare()`` is called before each registration, also in a replaced store.
        """
        self._store = store
        self._service = service
        self._cache = cache
        self._registration = registration
        self._clock = clock
        self._secret = secret
        self._on_failure = on_failure
        self._session_timeout_ms = session_timeout_ms
        self._prepare = prepare
        self._standing = asyncio.Lock()
        """Locked while this broker stands for controller, resigns, or replaces its image."""
        self._rejoined = 0
        """The session in which this broker last joined again."""
        self._watches: list[Watch] = []
        self._work = WorkQueue(self._start, self._fail)
        self._news = asyncio.Event()
        """Set when there is work. It ends the pause between two attempts to stand for controller."""
        self._has_failed = False
        self._has_left = False
        self._has_resigned = False
        """True if this broker no longer stands for controller, because it stops."""
        self._refused_terms = 0
        """How many terms in a row the store has refused."""
        self._is_resting = False
        """True during the pause after a refused term."""
        self._doubt: object = None
        """Not None while the store may have another image than this broker; each new doubt is a new object."""
        self._is_leaving = False
        """True if this broker has announced that it stops."""
        self._offline: frozenset[tuple[bytes, int]] = frozenset()
        """The replicas (topic id, index) that are on no working disk of this broker."""
        self._following = Following(
            store, lambda: cache.image.version, service.follow_entry, self._reload, self._fail
        )
        service.term.on_fenced = self._on_fenced
        service.may_show = self._may_show

    async def join(self) -> None:
        """Registers, stands for controller, and publishes the image that contains this broker.

        If the store is lost meanwhile, this waits until it is back.
        """
        while not await self._try_to(self._register):
            if self._is_expired:
                await self._try_to(self._store.new_session)
        self._watches = [
            self._store.watch(znodes.CONTROLLER, lambda path: self._start(self._stand_for_controller)),
            self._store.watch(znodes.BROKER_IDS, lambda path: self._start(self._update_brokers)),
            self._store.watch(znodes.UNFIT, lambda path: self._start(self._update_brokers)),
            self._store.watch(cluster_secret.PATH, lambda path: self._start(self._secret.read)),
        ]
        self._store.session.on_change(self._on_session)
        if self._is_expired:  # the session expired after the registration, before there was a listener
            self._on_session(self._store.session.state)
        while not await self._try_to(self._stand_for_controller):
            pass  # if the session has expired, ``_rejoin`` begins another one

    async def _try_to(self, work: Callable[[], Awaitable[object]]) -> bool:
        """Does one part of joining. If the store cannot be reached, waits for a pause and returns False."""
        try:
            await work()
        except (ConnectionLoss, SessionExpired) as error:
            if self._store.session.state is SessionState.CLOSED:
                raise
            _log.warning("broker %d could not join yet, trying again: %s", self._registration.id, error)
            await asyncio.sleep(RETRY_S)
            return False
        return True

    # Registration

    async def _register(self) -> None:
        """Creates the registration when no earlier process is registered any longer. Its epoch is the new node's."""
        await self._secret.read()
        if self._prepare is not None:
            await self._prepare()
        own = self._registration
        path = znodes.broker_path(own.id)
        data = znodes.encode_broker(own, self._clock.now_ms(), own_process())
        starts, timeout_ms = own.epoch == 0, self._session_timeout_ms
        while True:
            await make_room(self._store, own.id, own.boot, starts=starts, session_timeout_ms=timeout_ms)
            with contextlib.suppress(NodeExists):
                await self._store.create(path, data, ephemeral=True)
                break
        self._registration = own._replace(epoch=(await self._store.get(path))[1].created)

    async def _stay_registered(self) -> None:
        """Registers again if the registration was removed. An earlier process of this broker, killed while it
        registered, may have removed it by a late write.
        """
        if not await self._owns(znodes.broker_path(self._registration.id)):
            _log.warning("the registration of broker %d is missing, so it registers again", self._registration.id)
            await self._register()

    async def _owns(self, path: str) -> bool:
        """Returns whether the node exists and belongs to this session."""
        stat = await self._store.exists(path)
        return stat is not None and stat.owner == self._store.session.id

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""
        return self._registration.epoch

    def _may_show(self, own: BrokerRegistration) -> bool:
        """Returns False for metadata with a later registration of this id: another broker may own it, and both would
        lead in the same epoch.

        The same holds while this broker registers and does not know its epoch yet.
        """
        if own.epoch <= self.broker_epoch:
            return True
        self._start(self._update_brokers)
        return False

    async def _update_brokers(self) -> None:
        """Reads the live brokers again after some came, left, or reported work that they cannot do."""
        async with self._standing:
            is_controller = self._service.is_controller
        await self._stay_registered()
        if is_controller:
            await self._service.set_brokers(await load_brokers(self._store))

    # Controller

    async def _stand_for_controller(self) -> None:
        """Becomes controller, or follows the current one."""
        async with self._standing:
            if self._service.is_controller and not await self._owns(znodes.CONTROLLER):
                _log.warning("broker %d is no longer the controller: its /controller is gone", self._registration.id)
                self._service.step_down()
            while not self._service.is_controller and not self._has_left:
                self._news.clear()
                if await self._lead_or_follow():
                    return
                await self._stay_registered()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_S):
                        await self._news.wait()

    async def _lead_or_follow(self) -> bool:
        """Becomes controller or follows the current one. Returns False if it has to be called again: the controller has
        not seen this broker's registration yet, or the term was refused.
        """
        leadership = await self._claim()
        if leadership is None:
            return await self._follow()
        await self._following.stop()
        try:
            await self._begin_term(leadership)
        except (ConnectionLoss, SessionExpired):
            raise
        except (KafkaError, CoordinationError) as error:
            _log.warning("broker %d could not start its term as controller: %s", self._registration.id, error)
            self._rest_after_refusal()
            await give_up(self._store, leadership)
            return False
        self._refused_terms = 0
        return True

    async def _claim(self) -> Leadership | None:
        """Returns the term that this broker has won. Returns None if another broker is the controller, or if this one
        pauses after a refused term or has resigned.
        """
        if self._has_resigned or self._is_resting:
            return None
        try:
            return await become_controller(self._store, self._registration.id, self._clock.now_ms())
        except NoNode:
            await check_cluster(self._store, self._cache.image.cluster_id)
            raise

    async def _begin_term(self, leadership: Leadership) -> None:
        image = await self._newest()
        _log.info("broker %d is controller in epoch %d", self._registration.id, leadership.epoch)
        brokers = await load_brokers(self._store)
        await self._service.take_over(leadership, image, brokers, await load_deleted(self._store))
        self._doubt = None

    def _rest_after_refusal(self) -> None:
        """Stands for controller again after a pause."""
        self._doubt, self._is_resting = object(), True
        pause = min(RETRY_S * 2 ** min(self._refused_terms, LARGEST_EXPONENT), LONGEST_REST_S)
        self._refused_terms += 1
        asyncio.get_running_loop().call_later(pause, self._end_rest)

    def _end_rest(self) -> None:
        self._is_resting = False
        self._start(self._stand_for_controller)

    def _on_fenced(self) -> None:
        """Reads the store again, because this broker's image was not the newest."""
        self._start(self._catch_up)

    # Another broker is the controller

    async def _follow(self) -> bool:
        """Follows the journal, starting from this broker's image unless that is doubtful. Returns False if the
        controller has not seen this broker's registration yet.
        """
        if self._cache.image.version == 0 or self._doubt is not None:
            await self._following.stop()
            image = await self._newest()
            known = image.brokers.get(self._registration.id)
            if known is None or known.epoch != self._registration.epoch:
                return False
            await self._service.follow(image, await load_deleted(self._store), or_older=True)
            self._doubt = None
        self._following.start()
        return True

    async def _newest(self) -> MetadataImage:
        """Returns the newest image: this broker's image with later journal entries, or if that is doubtful, one read
        from the store.
        """
        if self._doubt is not None:
            return await newest(self._store, MetadataImage(cluster_id=self._cache.image.cluster_id))
        return await newest(self._store, self._cache.image)

    async def _reload(self) -> None:
        """Reads the whole store: the journal does not reach back to this broker's image, or the store refused a change.
        """
        self._doubt = doubt = object()
        image = await self._newest()
        await self._service.follow(image, await load_deleted(self._store))
        if self._doubt is doubt:  # otherwise a new session has begun meanwhile
            self._doubt = None

    async def _catch_up(self) -> None:
        """Reads the whole store, and stands for controller again."""
        async with self._standing:
            await self._following.stop()
            await self._reload()
        await self._stand_for_controller()

    async def look_at_store(self) -> None:
        """Reads topics that the store has and this broker does not know: their nodes were missing before."""
        if self._service.is_controller:
            await self._service.look_at_store()
            return
        found = await load_unknown_topics(self._store, lambda: self._cache.image)
        if found:
            _log.warning("the nodes of these topics are back in the coordination store: %s", sorted(found))
            self._start(self._catch_up)

    # Sessions

    @property
    def _is_expired(self) -> bool:
        return self._store.session.state is SessionState.EXPIRED

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._cache.is_in_touch = False
            self._service.step_down()
            self._start(self._rejoin)

    async def _rejoin(self) -> None:
        """Begins a new session after an expired one, with a new broker epoch. Does nothing if it was already done.

        Failed attempts are repeated, even if an attempt by another expired session has succeeded since.
        """
        if self._rejoined == self._store.session.id and not self._is_expired:
            return
        self._service.step_down()
        session = (await self._store.new_session()).id
        await check_cluster(self._store, self._cache.image.cluster_id)
        await self._register()
        async with self._standing:
            self._doubt = object()  # the store may have been replaced or restored, with another journal
        if self._is_leaving or self._offline:
            await self._announce()
        await self._stand_for_controller()
        if session == self._store.session.id and not self._is_expired:
            self._rejoined = session
            self._cache.is_in_touch = True

    # Work and failures

    def _start(self, work: Work) -> None:
        """Queues work, which runs after the work before it, unless this broker has left or failed."""
        self._news.set()
        if not (self._has_left or self._has_failed or self._store.session.state is SessionState.CLOSED):
            self._work.add(work)

    def _fail(self, error: Exception) -> None:
        """Stops this broker after an error that will not pass."""
        if self._has_left:
            return
        is_known = isinstance(error, BrokerIdTaken)
        _log.critical("this broker leaves the cluster and stops: %s", error, exc_info=None if is_known else error)
        self._has_failed = True
        self._work.clear()
        self._service.step_down()
        self._on_failure()

    # Leaving

    async def retire(self) -> None:
        """Announces that this broker is stopping. Returns when other brokers lead its partitions, as far as possible,
        and when another broker can become controller.
        """
        image, node_id = self._cache.image, self._registration.id
        if self._has_failed or not (image.brokers.keys() - {node_id} or self._offline):
            return
        self.announce(is_leaving=True)
        await self._cache.until(lambda image: _has_retired(image, node_id))
        await self._resign()

    async def _resign(self) -> None:
        """Finishes the controller's pending work, then resigns as controller and no longer stands for election."""
        async with self._standing:
            self._has_resigned = True
            await self._service.resign()
            self._following.start()

    def announce(self, *, is_leaving: bool = False, offline: frozenset[tuple[bytes, int]] | None = None) -> None:
        """Announces what this broker can no longer do: lead any partition, or serve the ``offline`` replicas. Tries
        again until the announcement is written.
        """
        self._is_leaving |= is_leaving
        self._offline = self._offline if offline is None else offline
        self._start(self._announce)

    async def _announce(self) -> None:
        path = znodes.unfit_path(self._registration.id)
        data = znodes.encode_unfit(is_leaving=self._is_leaving, offline=self._offline)
        said = Create(path, data, ephemeral=True)
        before = await self._store.exists(path)
        await self._store.multi([Delete(path), said] if before else [said])

    async def leave(self) -> None:
        """Stops watching and gives up the registration; the store stays open."""
        self._has_left = True
        self._news.set()
        for watch in self._watches:
            watch.cancel()
        # without a session, work in progress would wait for a store that may never come back
        await self._work.close(may_finish=self._store.session.state is SessionState.CONNECTED)
        await self._following.stop()
        self._service.step_down()


def _has_retired(image: MetadataImage, node_id: int) -> bool:
    broker = image.brokers.get(node_id)
    return broker is None or broker.is_leaving
