"""The runtime's promises: which requests wait for which writes, and the state after a refused or lost write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cy.batch import Builder
from proofs.garbage import leaves_nothing
from pybroker.cluster.metadata.image import OFFSETS_TOPIC, MetadataDelta
from pybroker.coordinator import loading, runtime
from pybroker.coordinator.group import records
from pybroker.coordinator.group.offsets import CommittedOffset
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.group.shard import GroupShard, OffsetsAsked
from pybroker.coordinator.shard import Result
from pybroker.coordinator.tests.harness import Node, code
from pybroker.log.log import Log
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import ListGroups, SyncGroup, errors
from pyclient.protocol.errors import KafkaError


def test_case_42_a_client_that_asks_the_wrong_broker_gets_an_error(node: Node) -> None:
    assert code(node.run(node.commit(5))) == errors.NotCoordinator.code
    node.offsets_topic(leader=2, replicas=(1, 2), isr=(1, 2))
    assert code(node.run(node.commit(5))) == errors.NotCoordinator.code


def test_case_42_a_committed_offset_survives_a_restart(node: Node) -> None:
    node.offsets_topic()
    for offset in (3, 7, 12):
        assert code(node.run(node.commit(offset))) == errors.NONE
    node.stop()
    node.start()
    assert node.committed() == {("t", 0): 12}


def test_case_42_requests_for_a_partition_that_is_loading_wait_for_it(node: Node) -> None:
    node.offsets_topic()
    node.run(node.commit(5))
    node.stop()
    node.start()
    waiting = node.loop.create_task(node.groups.committed(OffsetsAsked("g", None)))
    assert not waiting.done()
    assert [topic for topic, _ in node.run(waiting)] == ["t"]


def test_case_42_a_request_gets_load_in_progress_if_loading_takes_too_long(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(log: object, shard: object) -> int:
        await asyncio.get_running_loop().create_future()
        return 0

    monkeypatch.setattr(runtime, "LOAD_WAIT_S", 0.01)
    monkeypatch.setattr(loading, "load", never)
    node.offsets_topic()
    assert code(node.run(node.commit(5))) == errors.CoordinatorLoadInProgress.code


def test_case_42_waiting_members_get_an_error_when_the_partition_moves(node: Node) -> None:
    node.offsets_topic(replicas=(1, 2), isr=(1,))
    node.run(node.join())
    waiting = node.task(node.join())
    assert not waiting.done()
    node.offsets_topic(replicas=(1, 2), isr=(1, 2), leader=2, epoch=1)
    assert node.run(waiting).error_code == errors.NotCoordinator.code


def test_case_42_the_next_leader_epoch_loads_again(node: Node) -> None:
    node.offsets_topic(replicas=(1, 2), isr=(1,))
    node.run(node.commit(5))
    node.offsets_topic(replicas=(1, 2), isr=(1, 2), leader=2, epoch=1)
    node.offsets_topic(replicas=(1, 2), isr=(1,), epoch=2)
    assert node.committed() == {("t", 0): 5}


def test_case_42_a_commit_with_too_few_replicas_is_refused_and_changes_nothing(node: Node) -> None:
    node.offsets_topic()
    node.run(node.commit(5))
    node.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=1, min_insync_replicas="2")
    assert code(node.run(node.commit(6))) == errors.CoordinatorNotAvailable.code
    assert node.committed() == {("t", 0): 5}


def test_a_commit_is_answered_when_the_replicas_have_it(node: Node) -> None:
    node.offsets_topic(replicas=(1, 2), isr=(1, 2))
    commit = node.task(node.commit(5))
    assert not commit.done()
    node.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=1)
    assert code(node.run(commit)) == errors.NONE


def test_a_commit_that_the_replicas_do_not_get_in_time_is_an_error(hasty: Node) -> None:
    hasty.offsets_topic(replicas=(1, 2), isr=(1, 2))
    assert code(hasty.run(hasty.commit(5))) == errors.CoordinatorNotAvailable.code


def test_an_offset_is_not_returned_before_the_replicas_have_it(node: Node) -> None:
    node.offsets_topic(replicas=(1, 2), isr=(1, 2))
    commit = node.task(node.commit(5))
    fetch = node.task(node.groups.committed(OffsetsAsked("g", None)))
    assert not fetch.done()
    node.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=1)
    [(topic, offsets)] = node.run(fetch)
    assert (topic, offsets[0].offset) == ("t", 5)
    assert commit.done()


def test_a_disconnected_member_is_not_answered_and_disturbs_no_other(node: Node) -> None:
    node.offsets_topic()
    node.run(node.join())
    gone = node.task(node.join())
    gone.cancel()
    node.turn()
    waiting = node.task(node.join())
    node.pass_ms(10_000)
    assert gone.cancelled()
    assert node.run(waiting).generation_id == 2


def test_sessions_end_by_the_clock(node: Node) -> None:
    node.offsets_topic()
    first = node.run(node.join())
    node.pass_ms(10_000)
    second = node.task(node.join())
    node.pass_ms(1)
    assert (first.generation_id, node.run(second).generation_id) == (1, 3)


def test_a_damaged_partition_is_not_served_and_the_others_are(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.offsets_topic()
    for group in "gh":
        node.run(node.commit(5, group))
    damaged = TopicPartition(OFFSETS_TOPIC, node.groups.partition_of("g"))
    assert node.groups.partition_of("h") != damaged.partition
    node.stop()
    load = loading.load

    async def corrupt(log: Log, shard: GroupShard) -> int:
        if log.topic_partition == damaged:
            raise errors.CorruptMessage("a CRC is wrong")
        return await load(log, shard)

    monkeypatch.setattr(loading, "load", corrupt)
    node.start()
    assert code(node.run(node.commit(6))) == errors.NotCoordinator.code
    assert node.committed("h") == {("t", 0): 5}


def _refusing(node: Node, monkeypatch: pytest.MonkeyPatch, times: int) -> list[GroupShard]:
    """Returns a broker that starts without a descriptor for the group's partition, and the shards that were begun."""
    node.offsets_topic()
    node.create("t")
    node.run(node.commit(5))
    node.stop()
    monkeypatch.setattr(runtime, "FIRST_LOAD_PAUSE_S", 0.01)
    load, begun, partition = loading.load, list[GroupShard](), node.groups.partition_of("g")

    async def refused(log: Log, shard: GroupShard) -> int:
        end = await load(log, shard)
        if log.topic_partition.partition == partition:
            begun.append(shard)
            if len(begun) <= times:
                raise errors.KafkaStorageError("Too many open files")
        return end

    monkeypatch.setattr(loading, "load", refused)
    node.start()
    return begun


def test_a_partition_that_could_not_be_loaded_is_loaded_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = _refusing(node, monkeypatch, 3)
    partition = node.groups.partition_of("g")
    node.until(lambda: node.groups.runtime.loaded_shard(partition) is not None)
    assert node.committed() == {("t", 0): 5}
    assert len(begun) == len(set(map(id, begun))) == 4, "nothing is replayed into a shard that has it in part"
    assert code(node.run(node.commit(6))) == errors.NONE


def test_events_during_a_failed_load_count_after_loading(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = _refusing(node, monkeypatch, 2)
    node.until(lambda: begun)
    node.delete("t")
    partition = node.groups.partition_of("g")
    node.until(lambda: node.groups.runtime.loaded_shard(partition) is not None)
    assert node.committed() == {}


def test_a_partition_that_cannot_be_loaded_is_dropped_with_its_leadership(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = _refusing(node, monkeypatch, 1000)
    node.until(lambda: begun)
    pause_s = node.groups.runtime._hosted[node.groups.partition_of("g")].load_pause_s
    node.offsets_topic(leader=2, replicas=(1, 2), isr=(1, 2), epoch=1)
    count = len(begun)
    passed: list[bool] = []
    node.loop.call_later(pause_s, passed.append, True)  # later than the next attempt would be
    node.until(lambda: passed)
    for _ in range(20):
        node.turn()
    assert len(begun) == count
    assert code(node.run(node.commit(6))) == errors.NotCoordinator.code


def test_a_large_commit_is_written_in_several_batches(node: Node) -> None:
    node.offsets_topic()
    request = node.many(20_000)
    response = node.run(node.groups.offset_commit(request, 8))
    assert {each.error_code for topic in response.topics for each in topic.partitions} == {0}
    assert len(node.committed()) == 20_000
    node.stop()
    node.start()
    assert len(node.committed()) == 20_000


def test_groups_of_all_partitions_are_listed(node: Node) -> None:
    node.offsets_topic()
    for number in range(10):
        node.run(node.commit(1, f"g{number}"))
    listed = node.run(node.groups.list_groups(ListGroups.Request()))
    assert {each.group_id for each in listed.groups} == {f"g{number}" for number in range(10)}


def test_offsets_of_deleted_topics_are_removed_with_the_topic(node: Node) -> None:
    node.offsets_topic()
    node.create("t")
    node.run(node.commit(5))
    node.delete("t")
    assert node.committed() == {}


def _a_topic_with_an_offset(node: Node) -> None:
    node.offsets_topic(replicas=(1, 2), isr=(1,))
    node.create("t")
    node.run(node.commit(5, topic_id=node.metadata.image.topics["t"].id))
    assert node.committed() == {("t", 0): 5}


def test_offsets_of_a_topic_deleted_without_a_coordinator_do_not_count_for_its_successor(node: Node) -> None:
    _a_topic_with_an_offset(node)
    node.offsets_topic(replicas=(1, 2), isr=(1, 2), leader=2, epoch=1)
    node.delete("t")
    node.create("t", generation=1)
    node.offsets_topic(replicas=(1, 2), isr=(1,), epoch=2)
    assert node.committed() == {}
    [(_, asked)] = node.run(node.groups.committed(OffsetsAsked("g", [("t", [0])])))
    assert asked[0].offset == -1
    node.run(node.commit(1, topic_id=node.metadata.image.topics["t"].id))
    assert node.committed() == {("t", 0): 1}


def test_offsets_left_by_a_refused_deletion_do_not_count_for_the_next_topic(node: Node) -> None:
    _a_topic_with_an_offset(node)
    node.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=1, min_insync_replicas="2")
    node.delete("t")
    node.stop()
    node.start()
    node.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=2)
    assert node.committed() == {("t", 0): 5}, "nobody knows better as long as nothing has the name"
    node.create("t", generation=1)
    assert node.committed() == {}


@pytest.mark.parametrize("made_anew", [False, True])
def test_an_interrupted_deletion_takes_the_offsets_unless_the_name_is_in_use_again(node: Node, made_anew: bool) -> None:
    node.offsets_topic()
    node.create("t")
    gone = node.metadata.image.topics["t"]
    node.publish_without("t")
    if made_anew:
        node.create("t", generation=1)
    node.run(node.commit(5))
    node.publish(MetadataDelta(deleted={"its id": gone}))
    assert node.committed() == ({("t", 0): 5} if made_anew else {})


def test_a_timer_set_by_a_refused_request_still_fires(node: Node) -> None:
    def decide(shard: GroupShard, result: Result) -> None:
        shard.timers.schedule(result.now.monotonic_ms + 1, lambda later: rung.append(later))
        raise errors.RebalanceInProgress

    rung: list[Result] = []
    node.offsets_topic()
    node.run(node.commit(5))
    partition = node.groups.partition_of("g")
    with pytest.raises(errors.RebalanceInProgress):
        node.run(node.groups.runtime.submit(partition, decide))
    hosted = node.groups.runtime._hosted[partition]
    assert hosted.alarm is not None
    assert hosted.alarm_ms == hosted.shard.timers.next_deadline_ms
    node.pass_ms(1)
    assert rung


def test_refused_requests_leave_nothing_to_the_garbage_collector(node: Node) -> None:
    """The defect: futures and frames referred to each other. A request with a hundred thousand groups left as many
    cycles.
    """
    node.offsets_topic()

    async def delete() -> set[int]:
        return {(await node.groups.delete_group(f"none-{number}")).error_code for number in range(100)}

    node.run(delete())
    with leaves_nothing(KafkaError):
        assert node.run(delete()) == {errors.GroupIdNotFound.code}


def test_the_last_of_many_records_of_a_key_counts(node: Node) -> None:
    node.offsets_topic()
    for offset in range(6_000):
        node.run(node.commit(offset, partition=offset % 2))
    node.stop()
    node.start()
    assert node.committed() == {("t", 0): 5_998, ("t", 1): 5_999}


class Emptied:
    """A log that compaction has reduced to one batch."""

    log_start_offset = 0
    log_end_offset = 9

    def __init__(self) -> None:
        batch = Builder()
        batch.append(0, *records.offset_record("g", "t", 0, CommittedOffset(5, -1, "", 0)))
        self.batch = batch.build(3)

    def read_bytes(self, offset: int, max_bytes: int, upper_bound: int) -> bytes:
        return self.batch if offset <= 3 else b""


def test_a_log_whose_last_records_compaction_has_removed_is_loaded(node: Node) -> None:
    shard = GroupShard(GroupSettings(), lambda: "id")
    assert node.run(loading.load(Emptied(), shard)) == 9  # type: ignore[arg-type]
    assert shard.offsets.of("g").get("t", 0).offset == 5


class Taken:
    """An event that removes a token from the shard and then raises."""

    def __init__(self, token: Any, error: Exception) -> None:
        self.token, self.error = token, error
        self.undone = 0

    def __call__(self, shard: GroupShard, result: Result) -> None:
        result.reply(self.token, "welcome")
        result.on_failure = self.undo
        raise self.error

    def undo(self, result: Result, error: KafkaError) -> None:
        self.undone += 1


@pytest.mark.parametrize("error", [errors.InvalidRegularExpression(), ZeroDivisionError()])
def test_an_event_that_raises_leaves_no_waiting_request_without_an_answer(node: Node, error: Exception) -> None:
    node.offsets_topic()
    partition = node.groups.partition_of("g")
    token = node.loop.create_future()
    event = Taken(token, error)
    told = error if isinstance(error, KafkaError) else errors.UnknownServerError()
    with pytest.raises(type(told)):
        node.run(node.groups.runtime.submit(partition, event))
    assert isinstance(token.exception(), errors.CoordinatorNotAvailable)
    assert event.undone == 1


def test_an_unexpected_append_error_leaves_no_waiting_request_without_an_answer(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.offsets_topic()
    node.run(node.commit(5))

    def broken(*arguments: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(node.replicas, "append", broken)
        assert code(node.run(asyncio.wait_for(node.commit(6), 60))) == errors.UnknownServerError.code
    assert node.committed() == {("t", 0): 5}


@pytest.mark.nightly
def test_a_member_that_joins_again_at_once_is_slowed_down_while_too_few_replicas_are_in_sync(node: Node) -> None:
    node.offsets_topic()
    node.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=1, min_insync_replicas="2")
    member_id = node.run(node.join()).member_id
    times = 0

    async def join_for_ever() -> None:
        nonlocal times
        while times < 100:
            joined = await node.join(member_id=member_id)
            request = SyncGroup.Request(group_id="g", member_id=member_id, generation_id=joined.generation_id)
            synced = await node.groups.sync_group(request)
            assert synced.error_code == errors.CoordinatorNotAvailable.code
            times += 1
            node.clock.advance(100)

    task = node.task(join_for_ever())
    node.run(asyncio.sleep(1.0))
    task.cancel()
    assert 1 <= times <= 10


def test_a_delayed_refusal_is_answered_when_the_coordinator_stops(node: Node) -> None:
    node.offsets_topic()
    node.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=1, min_insync_replicas="2")
    commit = node.task(node.commit(5))
    assert not commit.done()
    node.offsets_topic(replicas=(1, 2), isr=(1, 2), leader=2, epoch=1)
    assert code(node.run(commit)) == errors.NotCoordinator.code
