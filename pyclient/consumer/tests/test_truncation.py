"""What a consumer makes of a leader's answer about its place (KIP-320), alone and with a broker."""

from __future__ import annotations

import os
import pickle
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyclient import Admin, Consumer, Producer, TopicPartition
from pyclient.consumer import LogTruncation, OffsetAndMetadata
from pyclient.consumer.fetching.truncation import EpochEnd, Truncation, follow, is_doubtful, judge
from pyclient.consumer.subscription import PartitionState
from pyclient.tests.brokers import Broker, broker, kind, unique  # noqa: F401
from pyclient.tests.support import take, until

TP = TopicPartition("t", 0)
UNKNOWN = EpochEnd(-1, -1)


def reader(position: int, epoch: int, fetched: int | None = None, fetched_epoch: int = -1) -> PartitionState:
    """Returns the state of a partition with a position and perhaps prefetched records, valid in leader epoch 5."""
    state = PartitionState(TP)
    state.seek(position, epoch)
    if fetched is not None:
        state.fetch_offset, state.fetch_epoch = fetched, fetched_epoch
    state.proven = 5
    return state


def test_a_position_is_doubtful_when_the_leader_epoch_changes() -> None:
    state = reader(10, 3)
    assert not is_doubtful(state, 5)
    assert is_doubtful(state, 6)
    assert not is_doubtful(state, -1), "a broker too old to tell its epoch"


def test_a_position_from_a_seek_is_doubtful_if_it_has_an_epoch() -> None:
    state = reader(10, 3)
    state.seek(7, 2)
    assert is_doubtful(state, 5)
    state.seek(7)
    assert not is_doubtful(state, 5)


def test_a_position_is_valid_if_the_log_extends_beyond_it() -> None:
    state = reader(10, 3, 20, 4)
    assert judge(state, 6, EpochEnd(4, 20)) is None
    assert (state.position, state.fetch_offset, is_doubtful(state, 6)) == (10, 20, False)


def test_an_epoch_that_compaction_emptied_is_validated_by_the_one_before() -> None:
    state = reader(10, 3)
    assert judge(state, 6, EpochEnd(2, 50)) is None
    assert (state.fetch_offset, state.fetch_epoch, state.position) == (10, 2, 10)


def test_truncated_records_that_were_only_prefetched_are_dropped() -> None:
    state = reader(10, 3, 20, 4)
    turn = state.turn
    assert judge(state, 6, EpochEnd(3, 12)) is None
    assert (state.position, state.fetch_offset, state.fetch_epoch) == (10, 10, 3)
    assert state.turn != turn, "what is buffered is not given"
    assert is_doubtful(state, 6)
    assert judge(state, 6, EpochEnd(3, 12)) is None
    assert not is_doubtful(state, 6)


@pytest.mark.parametrize(
    ("answer", "divergent"), [(EpochEnd(2, 8), OffsetAndMetadata(8, 2)), (UNKNOWN, None)], ids=["known", "unknown"]
)
def test_truncation_of_records_already_read_is_an_error(answer: EpochEnd, divergent: OffsetAndMetadata | None) -> None:
    state = reader(10, 3)
    truncation = judge(state, 6, answer)
    assert truncation == Truncation(10, divergent)
    assert (state.position, is_doubtful(state, 6)) == (10, True), "until someone seeks it is so"
    assert follow(state, 6, truncation) is (divergent is not None)
    if divergent is not None:
        assert (state.position, state.epoch, is_doubtful(state, 6)) == (8, 2, False)


def test_the_truncation_error_names_the_offset_and_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(LogTruncation(TP, 10, OffsetAndMetadata(8, 2))))
    assert (error.partition, error.offset, error.divergent) == (TP, 10, OffsetAndMetadata(8, 2))
    assert "offset 8" in str(error)
    assert "unknown" in str(LogTruncation(TP, 10, None))


# With a broker: a place behind the end of the log's epoch, as after a truncation.


@pytest.fixture
def ten(broker: Broker) -> Iterator[TopicPartition]:  # noqa: F811
    """Creates a partition with ten records of leader epoch 0."""
    topic = unique("truncated")
    with Admin(broker.bootstrap) as admin, Producer(broker.bootstrap) as producer:
        admin.create_topics(topic, num_partitions=1, replication_factor=1)
        for number in range(10):
            producer.send(topic, value=b"%d" % number).result(60)
        yield TopicPartition(topic, 0)
        admin.delete_topics([topic])


def test_a_truncated_committed_offset_is_an_error_without_a_reset_policy(
    broker: Broker,  # noqa: F811
    ten: TopicPartition,
) -> None:
    with Consumer(broker.bootstrap, group_id=unique("g"), auto_offset_reset="none") as consumer:
        consumer.commit({ten: OffsetAndMetadata(50, 0)})
        consumer.assign([ten])
        for _ in range(2):
            with pytest.raises(LogTruncation) as caught:
                until(lambda: consumer.poll(0.2))
            assert (caught.value.partition, caught.value.offset) == (ten, 50)
            assert caught.value.divergent == OffsetAndMetadata(10, 0)
        consumer.seek(ten, 9)
        assert [record.offset for record in take(consumer, 1)] == [9]


def test_a_reset_policy_resumes_where_the_logs_diverge(broker: Broker, ten: TopicPartition) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer, Producer(broker.bootstrap) as producer:
        consumer.assign([ten])
        consumer.seek(ten, OffsetAndMetadata(50, 0))
        until(lambda: consumer.position(ten) == 10, "the end of the log to be found")
        producer.send(ten.topic, value=b"ten").result(60)
        assert [record.offset for record in take(consumer, 1)] == [10]


def test_an_epoch_unknown_to_the_leader_resets_the_offset(broker: Broker, ten: TopicPartition) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([ten])
        consumer.seek(ten, OffsetAndMetadata(5, 70))
        assert take(consumer, 10)[0].offset == 0


def cut(log: Path, offset: int) -> None:
    """Truncates the log at this offset, as if unsynced records were lost."""
    data, at = log.read_bytes(), 0
    while struct.unpack_from(">q", data, at)[0] < offset:
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    os.truncate(log, at)


@pytest.mark.nightly
def test_truncation_of_the_log_is_noticed_while_reading(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    with kind(pytestconfig)(tmp_path / "data") as own:
        with Admin(own.bootstrap) as admin, Producer(own.bootstrap) as producer:
            admin.create_topics("t", num_partitions=1, replication_factor=1)
            for number in range(10):
                producer.send("t", value=b"%d" % number).result(60)
        with Consumer(own.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert len(take(consumer, 10)) == 10
            own.kill()
            cut(next(own.partition_dir("t").glob("*.log")), 6)
            own.start()
            with Producer(own.bootstrap) as producer:
                for number in range(6, 16):
                    producer.send("t", value=b"new %d" % number).result(60)
            with pytest.raises(LogTruncation) as caught:
                until(lambda: consumer.poll(0.2))
            assert caught.value.divergent is not None
            assert (caught.value.offset, caught.value.divergent.offset) == (10, 6)
            consumer.seek(TP, caught.value.divergent)
            assert [record.value for record in take(consumer, 10)] == [b"new %d" % n for n in range(6, 16)]
    shutil.rmtree(tmp_path / "data", ignore_errors=True)
