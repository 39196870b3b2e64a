"""Brokers and their registrations: expired ones, those of another broker, those of earlier processes."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pybroker.clock import ManualClock
from pybroker.cluster import membership, namesake, owner_process, work_queue
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataImage
from pybroker.cluster.namesake import BrokerIdTaken
from pybroker.cluster.node import ClusterNode, _boot
from pybroker.cluster.owner_process import Owner, own_process
from pybroker.cluster.tests.harness import Members, assigned, membership_of, partition_of, proposal, propose, run
from pybroker.config import BrokerConfig, Endpoint
from pybroker.store.interface import ConnectionLoss, Session
from pybroker.tests.waiting import PATIENCE_S, until_async
from pybroker.topic_partition import TopicPartition


def test_case_22_a_controller_whose_session_expired_is_an_ordinary_broker_afterwards(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        await members.controller.node.controller.create_topics([assigned("t", (1, 2, 3))])
        before = (await members.settled()).brokers[1].epoch
        await members.server.expire(members.alive[1].store.session.id)
        await until_async(lambda: members.alive[2].image.controller_epoch >= 2)
        image = await members.settled()
        assert image.brokers[1].epoch > before
        assert partition_of(image).leader_epoch >= 1

    run(tmp_path / "db", scenario)


class Shaky:
    """A store that loses the first calls of a join, before or after they are performed. With ``expires``, the first
    call also ends the session.
    """

    def __init__(self, store: Any, server: Any, losses: int, expires: bool) -> None:
        self.losses, self.expires = losses, expires
        self._store, self._server = store, server
        self._joins = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return functools.partial(self._call, found) if name in ("create", "multi", "get_many") else found

    async def _call(self, call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
        self._joins |= znodes.broker_path(2) in str(arguments)
        if self.losses <= 0 or not self._joins:
            return await call(*arguments, **options)
        self.losses -= 1
        if self.losses % 2:
            await call(*arguments, **options)
        if self.expires:
            self.expires = False
            await self._server.expire(self._store.session.id)
        raise ConnectionLoss("cannot be reached")


@pytest.mark.parametrize("losses", range(1, 10))
@pytest.mark.parametrize("expires", [False, True])
def test_case_22_a_joining_broker_waits_for_a_store_that_disconnects_meanwhile(
    tmp_path: Path, losses: int, expires: bool
) -> None:
    """Found by a campaign: ZooKeeper was restarted while a broker started, and the broker ended with a traceback."""

    async def scenario(members: Members) -> None:
        await members.start(1)
        await members.start(2, wrap=lambda store: Shaky(store, members.server, losses, expires))
        image = await members.settled()
        assert set(image.brokers) == {1, 2}
        assert image.brokers[2].epoch == members.alive[2].node.broker_epoch

    run(tmp_path / "db", scenario)


def test_a_broker_whose_id_another_one_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namesake, "NAMESAKE_S", 0.4)
    monkeypatch.setattr(namesake, "SLACK_S", 0.0)

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        first = members.alive[2]
        other = ClusterNode(
            await members.server.connect(), BrokerConfig({}), 2, ManualClock(), first.node.cluster_id
        )
        with pytest.raises(BrokerIdTaken, match="broker 2 is already running at PLAINTEXT://"):
            await other.join({}, directory_ids=["another disk"])
        assert (await members.settled()).brokers[2].epoch == first.node.broker_epoch

    run(tmp_path / "db", scenario)


def test_case_22_a_suspended_broker_whose_id_another_has_taken_leads_nothing_and_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namesake, "NAMESAKE_S", 0.4)
    monkeypatch.setattr(namesake, "SLACK_S", 0.0)

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.controller.node.controller.create_topics([assigned("t", (2, 1))])
        await members.settled()
        old = members.alive.pop(2)
        awake, failed = asyncio.Event(), asyncio.Event()
        membership_of(old)._on_failure = failed.set
        renew = old.store.new_session

        async def sleep() -> Session:
            await awake.wait()
            return await renew()

        monkeypatch.setattr(old.store, "new_session", sleep)
        await members.server.expire(old.store.session.id)
        await members.until(lambda: 2 not in members.controller.image.brokers)
        other = await members.start(2, directory_ids=["another disk"])
        assert other.node.broker_epoch > old.node.broker_epoch
        await propose(members, 1, proposal(await members.settled(), 2, 1))
        await members.controller.node.controller.elect_leaders([TopicPartition("t", 0)], unclean=False)
        led = partition_of(await members.settled())
        assert led.leader == 2
        awake.set()
        async with asyncio.timeout(PATIENCE_S):
            await failed.wait()
        await members.until(lambda: set(old.image.brokers) == {1})
        assert all(other.node.broker_epoch not in _epochs(image) for image in old.history.values())
        assert partition_of(old.image).leader_epoch < led.leader_epoch
        async with asyncio.timeout(PATIENCE_S):
            await old.node.retire()
            await old.die()
        assert not (await members.settled()).brokers[2].is_leaving

    run(tmp_path / "db", scenario)


def _epochs(image: MetadataImage) -> set[int]:
    return {broker.epoch for broker in image.brokers.values()}


def test_case_22_leftover_nodes_of_a_broker_do_not_block_its_start(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        before = (await members.settled()).brokers[2].epoch
        past = members.alive[2]  # its session lives on, as after a kill until it expires
        await past.node.leave()
        await members.start(2)
        assert (await members.settled()).brokers[2].epoch > before
        await past.store.close()
        assert set((await members.settled()).brokers) == {1, 2}

    run(tmp_path / "db", scenario)


def test_case_22_a_killed_controller_that_is_back_does_not_wait_for_its_past_session(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        past = members.controller
        await past.node.leave()  # and its session lives on, with its /controller
        await members.start(past.id)
        await members.settled()
        await past.store.close()
        assert set((await members.settled()).brokers) == {1, 2}

    run(tmp_path / "db", scenario)


@contextmanager
def another_process() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Yields another process on this machine, and its text in a registration."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    namespace, started = owner_process._namespace(), owner_process._started(process.pid)
    assert owner_process.owner_of(own_process()) is Owner.ITSELF
    try:
        yield process, f"{namespace} {process.pid} {started}"
    finally:
        process.kill()
        process.communicate()


async def registered_by(members: Members, process: str) -> None:
    """Registers broker 2 in the name of ``process``, on the log dirs that broker 2 will have."""
    of_two = BrokerRegistration(2, 0, (Endpoint("A", "A", "h", 1),), boot=_boot(["disk"]))
    other = await members.server.connect()
    await other.create(znodes.broker_path(2), znodes.encode_broker(of_two, 0, process), ephemeral=True)


@pytest.mark.nightly
def test_a_broker_on_copied_log_dirs_of_a_live_one_is_refused_at_once(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        with another_process() as (_, process):
            await registered_by(members, process)
            before = await members.alive[1].store.get(znodes.broker_path(2))
            own = ClusterNode(
                await members.server.connect(), BrokerConfig({}), 2, ManualClock(), members.alive[1].node.cluster_id
            )
            await own.remove_past(["disk"])
            async with asyncio.timeout(30):
                with pytest.raises(BrokerIdTaken, match="on a copy of these log dirs"):
                    await own.join({}, directory_ids=["disk"])
            assert await members.alive[1].store.get(znodes.broker_path(2)) == before
        await members.die(1)

    run(tmp_path / "store", scenario)


@pytest.mark.nightly
def test_the_registration_of_a_killed_process_is_removed_at_once(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        with another_process() as (killed, process):
            await registered_by(members, process)
            killed.kill()
            killed.wait()
        async with asyncio.timeout(30):
            await members.start(2, directory_ids=["disk"])
        assert set((await members.settled()).brokers) == {1, 2}

    run(tmp_path / "store", scenario)


def test_a_starting_broker_replaces_a_registration_of_its_id_from_another_namespace() -> None:
    namespace, pid, started = own_process().split(" ")
    elsewhere = owner_process.owner_of(f"{namespace}x {pid} {started}")
    assert elsewhere is Owner.ELSEWHERE
    assert namesake._is_past(elsewhere, starts=True)
    assert not namesake._is_past(elsewhere, starts=False)
    assert owner_process.owner_of(f"{namespace} {pid} {started}0") is Owner.DEAD, "its id was given again"


def test_a_broker_whose_session_expired_names_no_controller_until_it_has_rejoined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata may be old: a joined broker continues to run after its supervisor has ended."""

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.settled()
        late = next(member for member in members.alive.values() if not member.is_controller)
        cache, renew, awake = late.node.metadata, late.store.new_session, asyncio.Event()

        async def wait() -> Session:
            await awake.wait()
            return await renew()

        monkeypatch.setattr(late.store, "new_session", wait)
        assert cache.live_controller == members.controller.id
        await members.server.expire(late.store.session.id)
        assert cache.live_controller == -1
        awake.set()
        await members.until(lambda: cache.live_controller == members.controller.id)
        await members.settled()

    run(tmp_path / "store", scenario)


def test_a_broker_whose_session_expires_twice_in_a_row_rejoins_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulator: the first attempt was repeated after the second had succeeded. So the broker removed its
    own registration and its own /controller.
    """
    monkeypatch.setattr(membership, "RETRY_S", 0.0)
    monkeypatch.setattr(work_queue, "PAUSE_S", 0.0)

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.settled()
        late = members.controller
        renew, created, registered = late.store.new_session, late.store.create, []

        async def expires_once_more() -> Session:
            monkeypatch.setattr(late.store, "new_session", renew)
            session = await renew()
            await members.server.expire(session.id)
            return session

        async def create(path: str, *arguments: Any, **options: Any) -> str:
            found = await created(path, *arguments, **options)
            registered.append(path)
            return found

        monkeypatch.setattr(late.store, "new_session", expires_once_more)
        monkeypatch.setattr(late.store, "create", create)
        await members.server.expire(late.store.session.id)
        work = membership_of(late)._work
        await members.until(lambda: registered and work._worker is not None and work._worker.done())
        await members.settled()
        assert registered == [znodes.broker_path(late.id)]

    run(tmp_path / "store", scenario)


def test_a_start_waits_longer_than_a_session_timeout_for_an_old_registration_of_its_id() -> None:
    assert namesake.patience_s(60_000) > 60
    assert namesake.patience_s(6_000) == namesake.NAMESAKE_S


def test_a_broker_whose_registration_was_removed_registers_again(tmp_path: Path) -> None:
    """Found by the simulator: the last write of a killed process came after its successor had registered."""

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        before = (await members.settled()).brokers[2].epoch
        await members.alive[1].store.delete(znodes.broker_path(2))
        await members.until(lambda: members.has_settled and members.controller.image.brokers[2].epoch > before)

    run(tmp_path / "store", scenario)


def test_a_broker_whose_session_expires_during_its_registration_still_joins(tmp_path: Path) -> None:
    """Found by the simulator: a process was halted during its start, when it had no listener for its session yet."""

    async def scenario(members: Members) -> None:
        ended: list[int] = []

        def halted(store: Any) -> Any:
            get = store.get

            async def get_and_expire(path: str) -> Any:
                found = await get(path)
                if path == znodes.broker_path(1) and not ended:
                    ended.append(store.session.id)
                    await members.server.expire(store.session.id)
                return found

            store.get = get_and_expire
            return store

        async with asyncio.timeout(30):
            await members.start(1, wrap=halted)
        assert ended
        assert members.alive[1].store.session.id != ended[0]
        await members.until(lambda: members.has_settled)

    run(tmp_path / "store", scenario)
