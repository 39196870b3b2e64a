"""What replicas promise: S30, S32, S33, S76, S91, S93."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from conformance import drivers
from conformance.conftest import Counted
from conformance.data import batches
from conformance.drivers.base import Place
from conformance.scenarios.by_spark import BySpark
from conformance.scenarios.cluster.brokers import OpenCluster
from conformance.scenarios.cluster.traffic import LIBRARIES, Worker, whole_log
from harness.clients.librdkafka import Deliveries, producer, write
from harness.protocol.error_codes import NOT_ENOUGH_REPLICAS
from harness.protocol.wire_client import Wire
from harness.waiting import until

COUNT = 100
BEFORE_VALUE = 61 + 6
"""A batch with one record has this many bytes before the value: two headers."""
PATIENCE_S = 90


class Outcome(NamedTuple):
    """The results of one kind of acks when the leader is killed: numbers of records."""

    acked: int
    lost: int


def test_s30_s93_a_leader_killed_at_the_worst_moment_loses_only_what_acks_permits(
    embedded: OpenCluster, topic: str, by_spark: BySpark, counted: Counted
) -> None:
    """The followers are halted. The leader acknowledges the records that it may, and is killed; little has been
    replicated.

    Only afterwards is it known whether the followers were still in sync. If they were not, the test tries again.
    """
    deadline = time.monotonic() + PATIENCE_S
    for turn in range(100):
        outcomes = _killed_at_the_worst_moment(embedded, f"{topic}-{turn}")
        assert outcomes["all"].lost == 0
        if outcomes["1"].lost or time.monotonic() > deadline:
            break
    for acks, found in outcomes.items():
        values = by_spark.values(embedded, f"{topic}-{turn}-{acks}")
        assert values == [value for _, value in whole_log(embedded, Place(f"{topic}-{turn}-{acks}", 0))]
        counted(f"acks={acks}", sent=COUNT, acked=found.acked, lost_of_these=found.lost)
    assert [outcomes[acks].acked for acks in ("0", "1")] == [COUNT, COUNT]
    assert all(outcomes[acks].lost for acks in ("0", "1"))


def _killed_at_the_worst_moment(cluster: OpenCluster, topic: str) -> dict[str, Outcome]:
    topics = {acks: f"{topic}-{acks}" for acks in ("0", "1", "all")}
    for each in topics.values():
        cluster.place_topic(each, {0: (1, 2, 3)})
    cluster.place_topic(f"{topic}-bait", {0: (1, 2, 3)})
    told = {acks: Deliveries() for acks in topics}
    settings = {"enable_idempotence": False, "retries": 0, "linger_ms": 0, "message_timeout_ms": 60_000}
    clients = {acks: producer(cluster, acks=acks, **settings) for acks in topics}
    for acks, client in clients.items():
        client.produce(topics[acks], b"before", partition=0)
        assert client.flush(60) == 0
    with Wire(cluster.address(1)) as wire:
        until(lambda: all(wire.end_offset(each) == 1 for each in topics.values()), "what is replicated")
    with ExitStack() as stopped:
        with cluster.hung(2, 3):
            _answer_their_fetches(cluster, f"{topic}-bait")
            for acks, client in clients.items():
                for number in range(COUNT):
                    client.produce(topics[acks], b"%d" % number, partition=0, on_delivery=told[acks])
            assert clients["0"].flush(60) == clients["1"].flush(60) == 0
            clients["all"].poll(0)
            _only_what_is_replicated_is_seen(cluster, topics["1"])
            stopped.enter_context(_no_more(cluster, 1))
        until(lambda: cluster.at(topics["1"], without=1).leader in (2, 3), "another leader")
        for each in topics.values():
            write(cluster, each, [b"after"])
    assert clients["all"].flush(90) == 0
    acked = {acks: [message.value() for message in told[acks].messages] for acks in topics}
    cluster.wait_for(1)
    cluster.await_sync(*topics.values())
    return {acks: _counted(cluster, topics[acks], acked[acks]) for acks in topics}


def _answer_their_fetches(cluster: OpenCluster, bait: str) -> None:
    """Answers the fetches that the followers have already sent."""
    with Wire(cluster.address(1)) as wire:
        for _ in range(3):
            assert wire.produce(bait, batches.batch([b"bait"]), acks=1).error_code == 0


def _no_more(cluster: OpenCluster, broker: int) -> ExitStack:
    """Kills a broker until the end. The others are halted, so they have not noticed it."""
    dead = ExitStack()
    dead.enter_context(cluster.locked(broker))
    return dead


def _only_what_is_replicated_is_seen(cluster: OpenCluster, topic: str) -> None:
    """S93: the leader has all records, but serves only those below the high watermark."""
    with Wire(cluster.address(1)) as wire:
        assert wire.end_offset(topic) == 1
        shown = wire.fetch(topic, 0)
    assert shown.high_watermark == 1
    assert shown.records.count(b"before") == 1
    assert len(shown.records) < 150
    assert sum(map(len, cluster.segments(1, topic).values())) > len(shown.records)


def _counted(cluster: OpenCluster, topic: str, acked: list[bytes | None]) -> Outcome:
    """S93: the old leader has truncated what the new one lacks, and all replicas have the same bytes."""
    cluster.await_alike(topic)
    found = [value for _, value in whole_log(cluster, Place(topic, 0))]
    assert found[0] == b"before"
    assert b"after" in found
    assert len(set(found)) == len(found)
    return Outcome(len(acked), len(set(acked) - set(found)))


def test_s32_waiting_records_are_acked_once_enough_replicas_are_back(embedded: OpenCluster, topic: str) -> None:
    embedded.place_topic(topic, {0: (3, 1)}, min_insync_replicas=2)
    acked: list[str] = []

    def sends(library: str) -> Worker:
        def work(_: threading.Event) -> None:
            with drivers.opened(library).producer(embedded.bootstrap) as client:
                client.send(topic, library.encode(), partition=0)
                client.flush()
                acked.append(library)

        return Worker(library, work)

    with embedded.down(1):
        workers = [sends(library) for library in LIBRARIES]
        with Wire(embedded.address(3)) as wire:
            for _ in range(20):
                assert wire.produce(topic, batches.batch([b"never"])).error_code == NOT_ENOUGH_REPLICAS
                assert wire.end_offset(topic) == 0
        assert not acked
    until(lambda: len(acked) == len(workers), "acks for all")
    for worker in workers:
        worker.stop()
    found = sorted(value.decode() for _, value in whole_log(embedded, Place(topic, 0)))
    assert found == sorted(LIBRARIES)


def test_s33_a_corrupt_replica_is_restored_from_the_other(embedded: OpenCluster, topic: str) -> None:
    embedded.place_topic(topic, {0: (1, 2)})
    values = [b"record %d" % number for number in range(30)]
    _write_one_by_one(embedded, topic, values)
    with embedded.down(1):
        _rot(embedded.partition_dir(1, topic) / f"{0:020}.log", b"record 13")
        write(embedded, topic, [b"record 30"])
    embedded.await_sync(topic)
    embedded.await_alike(topic)
    until(lambda: embedded.leader(topic) == 1, "the one that had rotted to lead")
    assert [value for _, value in whole_log(embedded, Place(topic, 0))] == [*values, b"record 30"]


def test_s33_no_follower_copies_a_corrupt_batch_of_the_leader(embedded: OpenCluster, topic: str) -> None:
    """The leader finds the damage, or the client does; no client accepts the bytes."""
    embedded.place_topic(topic, {0: (1, 2)})
    values = [b"record %d" % number for number in range(9)]
    with embedded.down(2):
        _write_one_by_one(embedded, topic, values)
        log = embedded.partition_dir(1, topic) / f"{0:020}.log"
        good = log.read_bytes()
        _rot(log, b"record 5")
    intact = good[: good.index(b"record 5") - BEFORE_VALUE]
    until(lambda: embedded.segments(2, topic) == {log.name: intact}, "what is intact at the follower")
    assert embedded.at(topic).isr == (1,)
    with pytest.raises(AssertionError, match=r"INVALID_MSG|_BAD_MSG"):
        whole_log(embedded, Place(topic, 0))
    assert embedded.segments(2, topic) == {log.name: intact}
    log.write_bytes(good)
    embedded.await_sync(topic)
    assert [value for _, value in whole_log(embedded, Place(topic, 0))] == values


def _write_one_by_one(cluster: OpenCluster, topic: str, values: list[bytes]) -> None:
    """Writes each value in its own batch."""
    with Wire(cluster.address(1)) as wire:
        for value in values:
            assert wire.produce(topic, batches.batch([value])).error_code == 0


def _rot(log: Path, value: bytes) -> None:
    """Flips a bit of a record's value."""
    with log.open("r+b") as file:
        place = file.read().index(value)
        file.seek(place)
        file.write(bytes([value[0] ^ 1]))


def test_s76_checkpoints_hold_the_replicated_and_the_flushed_offset(embedded: OpenCluster, topic: str) -> None:
    flushed, unflushed = f"{topic}-flushed", f"{topic}-unflushed"
    embedded.place_topic(flushed, {0: (1, 2), 1: (2, 3)}, flush_messages=1)
    embedded.place_topic(unflushed, {0: (3, 1)})
    write(embedded, flushed, [b"x"] * 30, partition=0)
    write(embedded, flushed, [b"x"] * 12, partition=1)
    write(embedded, unflushed, [b"x"] * 7)
    for broker, rows in {1: {(flushed, 0): 30, (unflushed, 0): 7}, 2: {(flushed, 0): 30, (flushed, 1): 12}}.items():
        until(lambda: _has(embedded, broker, "replication-offset-checkpoint", rows), "what is replicated")  # noqa: B023
        durable = {place: 0 if place[0] == unflushed else offset for place, offset in rows.items()}
        until(lambda: _has(embedded, broker, "recovery-point-offset-checkpoint", durable), "what is flushed")  # noqa: B023


def _has(cluster: OpenCluster, broker: int, name: str, rows: dict[tuple[str, int], int]) -> bool:
    found = cluster.checkpoint(broker, name)
    return all(found.get(place, 0) == offset for place, offset in rows.items())


def test_s91_a_slow_follower_leaves_the_isr_and_comes_back_when_it_has_caught_up(
    embedded: OpenCluster, topic: str
) -> None:
    slow = next(each for each in embedded.ids if each != embedded.controller())
    first, second = (each for each in embedded.ids if each != slow)
    embedded.place_topic(topic, {0: (first, second, slow)}, min_insync_replicas=2)
    values = [b"%d" % number for number in range(300)]
    write(embedded, topic, values[:100])
    with embedded.hung(slow):
        write(embedded, topic, values[100:200])
        until(lambda: set(embedded.at(topic, without=slow).isr) == {first, second}, "the third to have been left out")
        assert embedded.at(topic, without=slow).replicas == (first, second, slow)
        assert slow in embedded.brokers(without=slow), "it is slow, not dead"
        write(embedded, topic, values[200:])
        sizes = [sum(map(len, embedded.segments(each, topic).values())) for each in (first, second, slow)]
        assert sizes[2] < sizes[0] == sizes[1]
    embedded.await_sync(topic)
    embedded.await_alike(topic)
    assert [value for _, value in whole_log(embedded, Place(topic, 0))] == values
