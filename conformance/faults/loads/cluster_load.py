"""Runs foreign clients on several brokers, in the campaign's threads: librdkafka's writer and group, and a committer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from conformance.drivers.base import Place
from conformance.faults.checkers.history import Anomaly, PartitionHistory, Watermark
from conformance.faults.loads.cluster_target import PATIENCE_S, ClusterTarget
from conformance.faults.loads.load import GroupReader, IdempotentWriter, Load, read_back
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire
from harness.waiting import until

TOPIC, GROUP, COMMITTER = "foreign", "readers", "committer"
PARTITIONS = 3
NOT_NOW = (
    error_codes.UNKNOWN_TOPIC_OR_PARTITION,
    error_codes.LEADER_NOT_AVAILABLE,
    error_codes.NOT_LEADER_OR_FOLLOWER,
    error_codes.REQUEST_TIMED_OUT,
    *error_codes.COORDINATOR_NOT_READY,
    error_codes.NOT_ENOUGH_REPLICAS,
    error_codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    error_codes.KAFKA_STORAGE_ERROR,
)
"""A client that gets one of these codes sends or asks again after a moment."""
#: Seconds between two records of the same partition.
PACE_S = 0.01


class PacedWriter(IdempotentWriter):
    """Writes slower than an unpaced writer, because it remembers every value."""

    def _send(self, producer: Any, place: Place, history: PartitionHistory) -> None:
        super()._send(producer, place, history)
        self.stopping.wait(PACE_S / PARTITIONS)


class MovingReader(GroupReader):
    """Reads while its coordinator moves. librdkafka forgets to ask the new one for the offsets (its issue 5586), so the
    reader restarts.
    """

    def __init__(
        self,
        target: ClusterTarget,
        seed: int,
        places: Mapping[Place, PartitionHistory],
        marks: Mapping[Place, Watermark],
    ) -> None:
        super().__init__(target, GROUP, seed, places, marks, session_timeout_ms=6_000)
        self.told: Counter[str] = Counter()

    def _hear(self, error: confluent_kafka.KafkaError) -> None:
        if error.code() == confluent_kafka.KafkaError.NOT_COORDINATOR:
            self.told[error.name()] += 1
            raise ConnectionError(error.str())
        super()._hear(error)


class MovingCommitter(Load):
    """Commits as ``Committer`` does, at the current coordinator."""

    def __init__(self, target: ClusterTarget, mark: Watermark) -> None:
        super().__init__(target, COMMITTER, 0)
        self.target = target
        self.mark = mark

    def work(self) -> None:
        with Wire(self.target.coordinator(self.name), 5.0) as wire:
            while not self.stopping.is_set():
                self._commit(wire, self.mark.tried + 1)
                self.stopping.wait(PACE_S)

    def _commit(self, wire: Wire, offset: int) -> None:
        self.mark.trying(offset)
        row = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
        reply = wire.ask(
            "OffsetCommit",
            8,
            group_id=self.name,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": TOPIC, "partitions": [row]}],
        )
        error = reply.topics[0].partitions[0].error_code
        if error in NOT_NOW:
            raise ConnectionError(f"error {error}")
        assert error == 0, reply
        self.mark.ack(offset)
        self.done += 1


class Foreign:
    """Runs all foreign clients, each with its history."""

    def __init__(self, target: ClusterTarget, seed: int) -> None:
        self.target = target
        self.histories = {Place(TOPIC, number): PartitionHistory() for number in range(PARTITIONS)}
        self.mark = Watermark(f"the offset of {COMMITTER}")
        marks = {place: Watermark(f"{GROUP}'s offset of {place}") for place in self.histories}
        self.writer = PacedWriter(target, "librdkafka", seed, self.histories, socket_timeout_ms=3_000)
        self.reader = MovingReader(target, seed, self.histories, marks)
        self.loads: list[Load] = [self.writer, self.reader, MovingCommitter(target, self.mark)]

    def begin(self) -> None:
        """Creates the topic and starts all clients; returns when each has done something."""
        self.target.make_topic(TOPIC, PARTITIONS, retention_ms=-1)
        for load in self.loads:
            load.start()
        until(self._has_begun, "the foreign clients to begin", PATIENCE_S)

    def _has_begun(self) -> bool:
        self.look()
        return all(self.done().values())

    def done(self) -> dict[str, int]:
        """Returns the progress of each client."""
        return {load.name: load.done for load in self.loads}

    def look(self) -> None:
        """Raises the error that made a client fail."""
        for load in self.loads:
            load.look()

    def check_offsets(self) -> list[Anomaly]:
        """Checks that the committer's committed offset is not older than the promised one."""
        promised = self.mark.acked
        try:
            found = self._committed()
        except OSError:
            return []
        return [] if found is None else self.mark.check(found, promised)

    def _committed(self) -> int | None:
        """Returns the coordinator's committed offset; None if the coordinator says that it cannot answer."""
        topics = [{"name": TOPIC, "partition_indexes": [0]}]
        with Wire(self.target.coordinator(COMMITTER), 5.0) as wire:
            reply = wire.ask("OffsetFetch", 7, group_id=COMMITTER, topics=topics, require_stable=True)
        if reply.error_code in NOT_NOW:
            return None
        assert reply.error_code == 0, reply
        row = reply.topics[0].partitions[0]
        return int(row.committed_offset) if row.error_code == 0 else None

    def end(self) -> None:
        """Waits until every begun request is answered and all clients have ended."""
        for load in self.loads:
            load.stop()

    def close(self) -> None:
        """Asks all clients to end, without waiting."""
        for load in self.loads:
            load.stopping.set()

    def check(self) -> tuple[int, list[Anomaly]]:
        """Returns how many records were read back, and all anomalies."""
        count = 0
        found = self.check_offsets()
        for place, told in self.histories.items():
            log = read_back(self.target, place)
            count += len(log)
            found += [Anomaly(kind, f"{place}: {text}") for kind, text in told.check(log)]
        return count, found
