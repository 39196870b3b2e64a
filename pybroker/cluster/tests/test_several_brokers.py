"""Several brokers on one store: all have the controller's image, whichever broker is the controller."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from pybroker.cluster.decisions.config_changes import ConfigChange, KeyChange
from pybroker.cluster.decisions.isr_changes import InSync
from pybroker.cluster.decisions.plan import NewPartitions, NewTopic, TopicName
from pybroker.cluster.metadata import journal, znodes
from pybroker.cluster.metadata.image import (
    NO_LEADER,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from pybroker.cluster.tests.harness import Members, assigned, membership_of, partition_of, proposal, propose, run
from pybroker.tests.waiting import PATIENCE_S, until_async
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


def test_every_broker_gets_what_the_controller_has_changed(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        await service.create_topics([NewTopic("t", 4, 2, configs=(("retention.ms", "5"),))])
        await service.create_partitions([NewPartitions("t", 6)])
        await service.create_topics([NewTopic("u", 1, 3)])
        await service.delete_topics([TopicName("t")])
        image = await members.settled()
        assert set(image.topics) == {"u"}
        assert image.controller_id == 1
        for member in members.alive.values():
            assert member.image == image

    run(tmp_path / "db", scenario)


def test_s95_the_next_broker_takes_over_and_the_epoch_grows_by_one(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        await members.controller.node.controller.create_topics([assigned("t", (1, 2, 3))])
        await members.die(1)
        image = await members.settled()
        assert image.controller_epoch == 2
        assert image.controller_id in (2, 3)
        assert partition_of(image).leader == 2
        assert partition_of(image).isr == (2, 3)
        await members.die(image.controller_id)
        image = await members.settled()
        assert image.controller_epoch == 3

    run(tmp_path / "db", scenario)


def test_a_broker_that_joins_late_loads_all_earlier_metadata(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.controller.node.controller.create_topics([assigned("t", (1, 2), (2, 1))])
        await members.start(3)
        image = await members.settled()
        assert members.alive[3].image == image
        assert len(members.alive[3].deltas) == 1

    run(tmp_path / "db", scenario)


def test_s92_a_dead_leader_is_replaced_and_comes_back_as_a_follower(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        await members.controller.node.controller.create_topics([assigned("t", (2, 3))])
        await members.die(2)
        image = await members.settled()
        assert partition_of(image).leader == 3
        await members.start(2)
        image = await members.settled()
        assert (partition_of(image).leader, partition_of(image).isr) == (3, (3,))
        [outcome] = await propose(members, 3, proposal(image, 2, 3))
        assert isinstance(outcome, PartitionImage)
        assert outcome.isr == (2, 3)
        preferred = await members.controller.node.controller.elect_leaders(
            [TopicPartition("t", 0)], unclean=False
        )
        assert set(preferred.values()) == {None}
        assert partition_of(await members.settled()).leader == 2

    run(tmp_path / "db", scenario)


def test_a_partition_without_a_leader_is_a_warning_unless_the_cluster_has_just_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def told() -> list[int]:
        return [record.levelno for record in caplog.records if "have no leader" in record.getMessage()]

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.controller.node.controller.create_topics([assigned("t", (2,))])
        await members.settled()
        await members.die(1)
        await members.settled()
        await members.die(2)
        await members.start(1)
        assert told() == [logging.INFO]
        await members.start(2)
        await members.settled()
        await members.die(2)
        await members.settled()
        assert told() == [logging.INFO, logging.WARNING]

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("unclean", ["false", "true"])
def test_s94_an_unclean_election_happens_only_for_topics_that_allow_it(tmp_path: Path, unclean: str) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        request = assigned("t", (2, 3))._replace(
            configs=(("unclean.leader.election.enable", unclean), ("min.insync.replicas", "1"))
        )
        await members.controller.node.controller.create_topics([request])
        await members.die(3)
        image = await members.settled()
        await members.die(2)
        await members.start(3)
        image = await members.settled()
        expected = 3 if unclean == "true" else NO_LEADER
        assert partition_of(image).leader == expected
        assert partition_of(image).isr == ((3,) if unclean == "true" else (2,))

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize(("kind", "name"), [(2, "t"), (4, "")], ids=["topic", "cluster"])
def test_s94_an_offline_partition_gets_a_leader_once_unclean_election_is_allowed(
    tmp_path: Path, kind: int, name: str
) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        await service.create_topics([assigned("t", (2, 3)), assigned("u", (2, 3))])
        await members.die(3)
        await members.settled()
        await members.die(2)
        await members.start(3)
        assert partition_of(await members.settled()).leader == NO_LEADER
        allow = ConfigChange(kind, name, (KeyChange("unclean.leader.election.enable", 0, "true"),))
        assert await service.alter_configs([allow], validate_only=True) == [None]
        assert partition_of(await members.settled()).leader == NO_LEADER
        assert await service.alter_configs([allow]) == [None]
        image = await members.settled()
        assert (partition_of(image).leader, partition_of(image).isr) == (3, (3,))
        other = image.topics["u"].partitions[0]
        assert (other.leader, other.isr) == ((NO_LEADER, (2,)) if kind == 2 else (3, (3,)))

    run(tmp_path / "db", scenario)


def test_cases_17_and_25_proposals_of_old_epochs_are_refused(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        await members.controller.node.controller.create_topics([assigned("t", (2, 3))])
        image = await members.settled()
        old = proposal(image, 2)
        assert isinstance((await propose(members, 2, old))[0], PartitionImage)
        image = await members.settled()
        outcomes = await propose(
            members,
            2,
            old,
            proposal(image, 2, 3)._replace(leader_epoch=-1),
            proposal(image, 2, 3)._replace(partition_epoch=99),
            proposal(image, 2, 1),
            proposal(image, 3),
            proposal(image, 2, 3)._replace(topic_id=bytes(16)),
            proposal(image, 2, 3)._replace(partition=7),
        )
        assert [type(outcome) for outcome in outcomes] == [
            errors.InvalidUpdateVersion,
            errors.FencedLeaderEpoch,
            errors.NotController,
            errors.InvalidRequest,
            errors.InvalidRequest,
            errors.UnknownTopicId,
            errors.UnknownTopicOrPartition,
        ]
        [outcome] = await propose(members, 3, proposal(image, 2, 3))
        assert isinstance(outcome, errors.InvalidRequest)

    run(tmp_path / "db", scenario)


def test_case_21_a_broker_of_an_old_registration_changes_nothing(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.controller.node.controller.create_topics([assigned("t", (1, 2))])
        image = await members.settled()
        with pytest.raises(errors.StaleBrokerEpoch):
            await members.controller.node.controller.alter_partition(
                1, image.brokers[1].epoch - 1, [proposal(image, 1)]
            )

    run(tmp_path / "db", scenario)


def test_a_broker_that_is_gone_leaving_or_registered_again_is_not_in_sync(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        await members.controller.node.controller.create_topics([assigned("t", (1, 2, 3))])
        image = await members.settled()
        await members.die(3)
        image = await members.settled()
        [outcome] = await propose(members, 1, proposal(image, 1, 2, 3))
        assert isinstance(outcome, errors.IneligibleReplica)
        await members.start(3)
        stale = image.brokers[2].epoch
        image = await members.settled()
        change = proposal(image, 1, 2)._replace(isr=(InSync(1), InSync(2), InSync(3, stale)))
        [outcome] = await propose(members, 1, change)
        assert isinstance(outcome, errors.IneligibleReplica)
        membership = members.alive[3].node._membership
        assert membership is not None
        membership.announce(is_leaving=True)
        await members.until(lambda: members.controller.image.brokers[3].is_leaving)
        [outcome] = await propose(members, 1, proposal(members.controller.image, 1, 2, 3))
        assert isinstance(outcome, errors.IneligibleReplica)

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("leaver", [1, 2])
def test_case_28_leaders_move_before_a_broker_stops(tmp_path: Path, leaver: int) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        await service.create_topics(
            [assigned("t", (leaver, 3), (3, leaver)), assigned("u", (leaver,))]
        )
        member = members.alive[leaver]
        await member.node.retire()
        image = member.image
        assert [p.leader for p in image.topics["t"].partitions] == [3, 3]
        assert [p.isr for p in image.topics["t"].partitions] == [(3,), (3,)]
        assert partition_of(image, "u").leader == leaver
        await members.die(leaver)
        image = await members.settled()
        assert partition_of(image, "u").leader == NO_LEADER
        await members.start(leaver, was_clean=True)
        image = await members.settled()
        assert partition_of(image, "u").leader == leaver
        assert not image.brokers[leaver].is_leaving

    run(tmp_path / "db", scenario)


def test_case_28_a_controller_that_stops_hands_over_at_once(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        leaver = members.controller
        await leaver.node.retire()
        await members.until(lambda: any(each.is_controller for each in members.alive.values()))
        assert not leaver.node.controller.is_controller
        await members.controller.node.controller.create_topics([assigned("t", (2, 3))])
        version = members.controller.image.version
        await members.until(lambda: leaver.image.version >= version)

    run(tmp_path / "db", scenario)


def test_a_broker_learns_of_a_topic_deleted_while_it_was_down(
    tmp_path: Path,
) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        [topic] = await service.create_topics([assigned("t", (1, 2, 3))])
        assert isinstance(topic, TopicImage)
        await members.settled()
        await members.die(3)
        await service.delete_topics([TopicName("t")])
        store = members.controller.store

        async def only_three_is_left() -> bool:
            return znodes.decode_left((await store.get(znodes.deleted_path(topic.id)))[0]).brokers == (3,)

        async def nothing_is_left() -> bool:
            return not await store.children(znodes.DELETED_TOPICS)

        await until_async(only_three_is_left)
        await service.create_topics([assigned("t", (1, 2))])
        member = await members.start(3)
        assert [gone.id for gone in member.deltas[0].deleted.values()] == [topic.id]
        assert "t" in member.image.topics
        await until_async(nothing_is_left)

    run(tmp_path / "db", scenario)


def test_a_broker_that_has_fallen_behind_the_journal_reads_everything_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "KEPT", 5)

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.settled()
        following = membership_of(members.alive[2])._following
        await following.stop()
        for n in range(30):
            await members.controller.node.controller.create_topics([NewTopic(f"t{n}", 1, 1)])
        names = await members.controller.store.children(znodes.JOURNAL)
        assert len(names) <= 6
        following.start()
        image = await members.settled()
        assert len(image.topics) == 30

    run(tmp_path / "db", scenario)


def test_a_restarted_cluster_has_all_its_metadata(tmp_path: Path) -> None:
    images: list[MetadataImage] = []

    async def first(members: Members) -> None:
        await members.start(1, 2, 3)
        await members.controller.node.controller.create_topics([NewTopic("t", 5, 3)])
        images.append(await members.settled())

    async def second(members: Members) -> None:
        await asyncio.gather(*(members.start(id, was_clean=True) for id in (3, 1, 2)))
        image = await members.settled()
        assert image.topics["t"].id == images[0].topics["t"].id
        assert all(p.leader != NO_LEADER for p in image.topics["t"].partitions)

    run(tmp_path / "db", first)
    run(tmp_path / "db", second)


def test_s99_preferred_leaders_lead_again_without_a_command(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        request = assigned("t", *[(2, 3)] * 4)
        await members.controller.node.controller.create_topics([request])
        await members.die(2)
        await members.start(2)
        image = await members.settled()
        assert {p.leader for p in image.topics["t"].partitions} == {3}
        changes = [proposal(image, 2, 3, index=index) for index in range(3)]
        await propose(members, 3, *changes)
        leaders = [2, 2, 2, 3]  # a replica that is not in sync stays away
        await members.until(
            lambda: [p.leader for p in members.alive[1].image.topics["t"].partitions] == leaders
        )

    run(tmp_path / "db", scenario, leader_imbalance_check_interval_seconds="1")


def test_a_lower_min_isr_removes_the_eligible_leaders_of_a_partition(tmp_path: Path) -> None:
    """Once one replica may commit alone, replicas that left earlier may lack committed records."""

    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        request = assigned("t", (2, 3))._replace(configs=(("min.insync.replicas", "2"),))
        await service.create_topics([request])
        await members.die(3)
        assert partition_of(await members.settled()).elr == (3,)
        key = KeyChange("min.insync.replicas", 0, "1")
        await service.alter_configs([ConfigChange(2, "t", (key,))])
        assert partition_of(await members.settled()).elr == ()
        await members.die(2)
        await members.start(3)
        assert partition_of(await members.settled()).leader == NO_LEADER

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize(("of_two", "is_shared", "eligible"), [("2", False, (3,)), ("1", False, ()), ("1", True, (3,))])
def test_case_27_a_leader_whose_own_file_sets_min_isr_1_has_no_eligible_leaders(
    tmp_path: Path, of_two: str, is_shared: bool, eligible: tuple[int, ...]
) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 3)
        await members.start(2, own={"min.insync.replicas": of_two})
        service = members.controller.node.controller
        if is_shared:
            await service.alter_configs([ConfigChange(4, "", (KeyChange("min.insync.replicas", 0, "2"),))])
        await service.create_topics([assigned("t", (2, 3))])
        await members.die(3)
        assert partition_of(await members.settled()).elr == eligible

    run(tmp_path / "db", scenario, min_insync_replicas="2")


def test_case_27_an_eligible_replica_leads_when_the_last_isr_member_is_gone(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        request = assigned("t", (2, 3))._replace(configs=(("min.insync.replicas", "2"),))
        await members.controller.node.controller.create_topics([request])
        await members.die(3)
        await members.settled()
        await members.die(2)
        await members.settled()
        await members.start(3)
        image = await members.settled()
        assert (partition_of(image).leader, partition_of(image).elr) == (3, (2,))
        stored = await members.server.connect()
        data, _ = await stored.get("/brokers/topics/t/partitions/0/state")
        assert b'"elr":[2]' in data

    run(tmp_path / "db", scenario)


def test_a_broker_that_cannot_apply_what_the_controller_has_changed_stops(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.settled()
        broken, failed = members.alive.pop(2), asyncio.Event()
        membership_of(broken)._on_failure = failed.set

        async def cannot(delta: MetadataDelta, image: MetadataImage) -> None:
            raise RuntimeError("for testing")

        broken.node.metadata.add_listener(cannot)
        await members.controller.node.controller.create_topics([assigned("t", (1, 2))])
        async with asyncio.timeout(PATIENCE_S):
            await failed.wait()
        await broken.die()

    run(tmp_path / "db", scenario)
