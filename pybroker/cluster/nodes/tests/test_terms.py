"""Terms of controllers: how they begin, which of their writes the store refuses, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata import journal, znodes
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage
from pybroker.cluster.namesake import Overtaken
from pybroker.cluster.nodes.loading import Deleted
from pybroker.cluster.tests.harness import Members, assigned, membership_of, run
from pybroker.store.embedded import EmbeddedStore
from pybroker.store.interface import BadVersion, Operation, OperationResult
from pyclient.protocol import errors


def test_case_20_the_broker_that_writes_the_next_journal_entry_first_is_the_controller(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        image = await members.settled()
        other = await members.server.connect()
        await other.create(znodes.journal_path(image.version + 1), journal_entry(image))
        with pytest.raises(errors.NotController):
            await members.alive[1].node.controller.create_topics([NewTopic("t", 1, 1)])
        image = await members.settled()
        assert image.controller_epoch == 2
        await members.controller.node.controller.create_topics([NewTopic("t", 1, 1)])
        assert "t" in (await members.settled()).topics

    run(tmp_path / "db", scenario)


def test_a_controller_starts_its_term_even_if_its_metadata_differ_from_the_store(tmp_path: Path) -> None:
    """The defect: each broker trusted its own image. No term could begin in a hundred attempts, and a dead broker led.
    """

    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        await service.create_topics([assigned("t", (1, 2, 3), (1, 2, 3)), NewTopic("u", 6, 3)])
        before = await members.settled()
        other = await members.server.connect()
        for index in range(2):
            path = znodes.state_path("t", index)
            await other.set(path, (await other.get(path))[0])
        await members.die(members.controller.id)
        async with asyncio.timeout(30):
            after = await members.settled()
        assert {p.leader for topic in after.topics.values() for p in topic.partitions} <= set(members.alive)
        assert after.controller_epoch <= before.controller_epoch + 5

    run(tmp_path / "db", scenario)


def test_a_controller_whose_change_is_refused_steps_down_until_it_has_reread_the_store(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        image = await members.settled()
        service = members.alive[1].node.controller
        may_show, answers = service.may_show, [False]
        service.may_show = lambda own: answers.pop() if answers else may_show(own)
        changed = image.brokers[1]._replace(rack="another")
        with pytest.raises(Overtaken):
            await service.set_brokers({**image.brokers, 1: changed})
        assert not service.is_controller
        await members.until(lambda: members.alive[1].image.controller_epoch == 2)
        assert (await members.settled()).version > image.version + 1

    run(tmp_path / "db", scenario)


def test_metadata_are_read_once_more_if_a_session_begins_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defect: the end of the reading cleared the new session's doubt, although the store might have been replaced.
    """

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.settled()
        late = next(member for member in members.alive.values() if not member.is_controller)
        its, service = membership_of(late), late.node.controller
        follow = service.follow

        async def interrupted(image: MetadataImage, deleted: Sequence[Deleted] = ()) -> None:
            await members.server.expire(late.store.session.id)
            await its._rejoin()
            await follow(image, deleted)

        async def stand() -> None:
            """Fails the test: the broker would follow the journal, and so end the doubt."""

        monkeypatch.setattr(its, "_start", lambda work: None)
        monkeypatch.setattr(its, "_stand_for_controller", stand)
        monkeypatch.setattr(service, "follow", interrupted)
        await its._reload()
        assert its._doubt is not None
        monkeypatch.setattr(service, "follow", follow)
        await its._reload()
        assert its._doubt is None

    run(tmp_path / "db", scenario)


def test_the_pause_after_very_many_refused_terms_is_still_short(tmp_path: Path) -> None:
    """The defect: the pause's power of two was too large for a number of seconds, and the broker stopped."""

    async def scenario(members: Members) -> None:
        await members.start(1)
        await members.settled()
        its = membership_of(members.controller)
        its._refused_terms = 5_000
        its._rest_after_refusal()
        assert its._refused_terms == 5_001

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("error", [Overtaken("for testing"), errors.NotController(), RuntimeError()])
def test_preferred_leaders_return_after_a_failed_check(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(members: Members) -> None:
        first = await members.start(1)
        looks = list[None]()

        async def fails() -> None:
            looks.append(None)
            raise error

        monkeypatch.setattr(first.node.controller, "rebalance", fails)
        await members.until(lambda: len(looks) > 1)

    run(tmp_path / "db", scenario, leader_imbalance_check_interval_seconds="1")


class Refusing:
    """A store that refuses the changes of controllers while ``is_on``."""

    is_on = False

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        if Refusing.is_on and any(op.path == znodes.KNOWN for op in operations):
            raise BadVersion(znodes.KNOWN)
        return await self._store.multi(operations)


@pytest.mark.nightly
def test_a_broker_retries_seldom_while_the_store_refuses_its_term_and_succeeds_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3, wrap=Refusing)
        before = await members.settled()
        monkeypatch.setattr(Refusing, "is_on", True)
        await members.die(members.controller.id)
        await asyncio.sleep(2)
        assert not any(member.is_controller for member in members.alive.values())
        other = await members.server.connect()
        tried = int((await other.get(znodes.CONTROLLER_EPOCH))[0]) - before.controller_epoch
        assert 2 <= tried <= 2 * 4, "each of two pauses 0.2 s, 0.4 s, 0.8 s …"
        monkeypatch.setattr(Refusing, "is_on", False)
        await members.settled()

    run(tmp_path / "db", scenario)


def journal_entry(image: MetadataImage) -> bytes:
    return journal.encode(MetadataDelta(controller=(image.controller_id, 1)), image, 1)
