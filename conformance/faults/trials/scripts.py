"""Trials: short scripts on three brokers, each at the one moment at which a broken promise shows.

A trial writes, freezes and kills by hand, notes its results in a history, and returns the anomalies. A broker that
keeps its promises gives none. Each planted defect names the trial that finds it. A step that takes longer than
``STUCK_S`` counts as an anomaly, ``stuck``.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from conformance.data import batches
from conformance.faults.checkers.history import Anomaly, Watermark
from conformance.faults.trials.transaction_scripts import CommitAndAbort, Offsets, Prepared, Zombie
from conformance.faults.trials.trial import PLACE, QUICK_LAG, STUCK_S, TOPIC, Stuck, Trial, quietly
from harness.protocol.wire_client import Wire
from harness.servers.clusters import Cluster


class FrozenFollowers(Trial):
    """Only the leader, which dies, has the records. It must not have acked or served them."""

    def script(self) -> None:
        self.write(5)
        leader, followers = self.leader(), self.followers()
        with self.hung(*followers):
            self.try_in_vain(leader)
            self.read(leader, 5)
            self.crash(leader)
        self.until(lambda: self.leader() != leader, "another leader")
        self.write(4)
        self.await_whole()
        self.write(2)


class OneFrozenFollower(Trial):
    """One of two followers has the records; the other one leads next."""

    def script(self) -> None:
        self.write(5)
        leader, (first, second) = self.leader(), self.followers()
        with self.halted(first):
            self.try_in_vain(leader)
            self.crash(leader, second)
        self.until(lambda: self.leader() == first, "the one that was frozen to lead")
        self.write(4)


class TooFew(Trial):
    """The leader alone is in sync, and dies: fewer than min.insync.replicas have what comes then (case 16)."""

    config = QUICK_LAG

    def script(self) -> None:
        self.write(5)
        leader, followers = self.leader(), self.followers()
        with self.halted(*followers):
            self.until(lambda: len(self.in_sync(leader)) == 1, "the followers to leave the ISR")
            self.try_in_vain(leader)
            self.crash(leader)
        self.until(lambda: self.leader() != leader or self.cluster.pid(leader), "a leader")
        self.await_whole()
        self.write(4)

    def in_sync(self, leader: int) -> tuple[int, ...]:
        """Returns the ISR, as the leader's own broker has it."""
        with Wire(self.cluster.address(leader)) as wire:
            return tuple(wire.metadata(TOPIC).partitions[0].isr_nodes)


class Laggard(TooFew):
    """A follower is out of sync; the in-sync replicas die, and it must not lead (cases 15 and 27)."""

    def script(self) -> None:
        self.write(5)
        leader, (laggard, other) = self.leader(), self.followers()
        with self.halted(laggard):
            self.until(lambda: laggard not in self.in_sync(leader), "the laggard to leave the ISR")
            self.write(20)
            self.cluster.halt(other)
            self.cluster.halt(leader)
            self.crash(leader, other)
        self.await_whole()
        self.write(4)


class NoPower(Trial):
    """All brokers are killed at once, before any of them has written its high watermark."""

    def script(self) -> None:
        self.write(5)
        self.write(20)
        self.crash(*self.cluster.ids)
        self.await_whole()
        self.write(4)


class Retry(Trial):
    """A client resends an acked batch, to the same leader and to the next one (cases 31 and 32)."""

    def script(self) -> None:
        with Wire(self.target.leader_of(PLACE)) as wire:
            producer_id = wire.new_producer_id()
        self.write(3, producer_id=producer_id, producer_epoch=0, base_sequence=0)
        values = self.values(4)
        last = batches.batch(values, producer_id=producer_id, producer_epoch=0, base_sequence=3)
        leader = self.leader()
        for _ in range(2):
            self.send(values, last)
        self.crash(leader)
        self.until(lambda: self.leader() != leader, "another leader")
        self.send(values, last)
        self.write(2, producer_id=producer_id, producer_epoch=0, base_sequence=7)

    def send(self, values: list[bytes], batch: bytes) -> None:
        with Wire(self.target.leader_of(PLACE), STUCK_S) as wire:
            row = wire.produce(TOPIC, bytes(batch))
        if not self.note(values, row):
            raise Stuck(f"a retry was refused with error {row.error_code}")


class Order(Trial):
    """Five requests of two records each are always in flight."""

    def script(self) -> None:
        with Wire(self.target.leader_of(PLACE), STUCK_S) as wire:
            waiting = []
            for _ in range(40):
                values = self.values(2)
                data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batches.batch(values)}]}
                posted = wire.post(
                    "Produce", 9, transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[data]
                )
                waiting.append((posted, values))
                if len(waiting) == 5:
                    self.take(wire, *waiting.pop(0))
            for row in waiting:
                self.take(wire, *row)

    def take(self, wire: Wire, posted: int, values: list[bytes]) -> None:
        self.note(values, wire.reply("Produce", 9, posted).responses[0].partition_responses[0])


class Coordinator(Trial):
    """A client commits offsets, the last one while the followers are halted; then their coordinator dies (case 42)."""

    def script(self) -> None:
        mark = Watermark("the offset of trial")
        self.until(self.coordinating, "a coordinator")
        where = self.coordinating()
        self.until(lambda: quietly(lambda: self.commit(where, mark, 0, 10.0)), "a first commit")
        for offset in range(1, 10):
            assert self.commit(where, mark, offset, 10.0)
        self.found += mark.check(self.committed())
        others = [broker for broker in self.cluster.ids if broker != where]
        with self.halted(*others):
            for offset in (10, 11, 12):  # Waiting fetches take the first one.
                with contextlib.suppress(OSError):
                    self.commit(where, mark, offset, 0.3)
            self.crash(where)
        self.until(lambda: self.coordinating() != where, "another coordinator")
        self.found += mark.check(self.committed())

    def coordinating(self) -> int:
        """Returns the coordinating broker, or 0 if there is none."""
        try:
            address = self.target.coordinator("trial")
        except OSError:
            return 0
        return next(broker for broker in self.cluster.ids if self.cluster.address(broker) == address)

    def commit(self, where: int, mark: Watermark, offset: int, patience_s: float) -> bool:
        row = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
        member = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        topics = [{"name": TOPIC, "partitions": [row]}]
        mark.trying(offset)
        with Wire(self.cluster.address(where), patience_s) as wire:
            reply = wire.ask("OffsetCommit", 8, group_id="trial", topics=topics, **member)
        if reply.topics[0].partitions[0].error_code:
            return False
        mark.ack(offset)
        return True

    def committed(self) -> int:
        """Returns the committed offset, once the coordinator can answer."""
        told: list[int] = []

        def ask() -> bool:
            topics = [{"name": TOPIC, "partition_indexes": [0]}]
            with Wire(self.target.coordinator("trial"), 10.0) as wire:
                reply = wire.ask("OffsetFetch", 7, group_id="trial", topics=topics, require_stable=True)
            if reply.error_code == 0 and reply.topics[0].partitions[0].error_code == 0:
                told.append(int(reply.topics[0].partitions[0].committed_offset))
            return bool(told)

        self.until(lambda: quietly(ask), "the committed offset")
        return told[0]


TRIALS: dict[str, type[Trial]] = {
    "frozen followers": FrozenFollowers,
    "one frozen follower": OneFrozenFollower,
    "too few": TooFew,
    "laggard": Laggard,
    "no power": NoPower,
    "retry": Retry,
    "order": Order,
    "coordinator": Coordinator,
    "transactions": CommitAndAbort,
    "offsets": Offsets,
    "zombie": Zombie,
    "prepared": Prepared,
}


def run(name: str, folder: Path) -> list[Anomaly]:
    """Runs a trial on brokers with this process's environment, and returns its anomalies."""
    kind = TRIALS[name]
    with Cluster(folder / "data", 3, None, **kind.config) as cluster:
        return kind(cluster).run()
