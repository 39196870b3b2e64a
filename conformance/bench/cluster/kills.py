"""Kills a partition's leader with SIGKILL repeatedly, and measures the time until acks=all works again.

Two clients measure at the same time. *Raw* asks the remaining brokers for the leader and writes without a pause, which
measures the brokers alone. librdkafka with its default settings shows what an application sees.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from conformance.bench.cases import Figures, LoadError, Scale
from conformance.bench.cluster.trio import KafkaTrio, OurTrio, Trio
from conformance.data.batches import batch
from harness.protocol.wire_client import Wire
from harness.servers.ensemble import Ensemble
from harness.waiting import until

PARTITIONS = 6
PATIENCE_S = 60.0
PAUSE_S = 0.002
PHASE_S = 0.37
SESSION_MS = 3000


def failover(trio: Trio, scale: Scale) -> Figures:
    """Returns the median and the worst failover in ms, for a raw client and for librdkafka."""
    topic = trio.new_topic(PARTITIONS, min_insync_replicas=2)
    kills = [_kill(trio, topic, number) for number in range(scale.kills)]
    until(lambda: trio.is_in_sync(topic), "all brokers to be back")
    raw, client = zip(*kills, strict=True)
    return {
        "failover_p50_ms": statistics.median(raw),
        "failover_max_ms": max(raw),
        "failover_client_p50_ms": statistics.median(client),
        "failover_client_max_ms": max(client),
    }


def failover_on_zookeeper(trio: Trio, scale: Scale) -> Figures:
    """Measures the same for our brokers on a ZooKeeper with a session of 3 s, in ms after its expiry. Kafka 4 has no
    ZooKeeper.
    """
    if isinstance(trio, KafkaTrio):
        return {}
    with tempfile.TemporaryDirectory() as folder, Ensemble(Path(folder)) as zookeeper:
        settings = {"zookeeper_session_timeout_ms": SESSION_MS}
        with OurTrio(Path(folder, "data"), f"{zookeeper.hosts}/bench", **settings) as own:
            found = failover(own, scale)
    return {
        "failover_zookeeper_p50_ms": found["failover_p50_ms"] - SESSION_MS,
        "failover_zookeeper_max_ms": found["failover_max_ms"] - SESSION_MS,
    }


def _kill(trio: Trio, topic: str, number: int) -> tuple[float, float]:
    """Kills one leader. Returns the ms to the next ack for a raw client and for librdkafka."""
    victim = trio.ids[number % len(trio.ids)]
    until(lambda: _leads(trio, topic, victim) and trio.is_in_sync(topic), f"broker {victim} to lead in {topic}")
    partition = next(n for n, row in trio.partitions(topic).items() if row.leader == victim)
    with Stream(trio.bootstrap, topic, partition) as stream:
        until(lambda: stream.acked_at > 0, "the first ack")
        time.sleep(number * PHASE_S % 1)  # librdkafka refreshes leaders once a second
        killed_at = time.monotonic()
        trio.kill(victim)
        raw_s = _first_ack(trio, topic, partition, victim) - killed_at
        client_s = until(lambda: stream.acked_after(killed_at + raw_s / 2), "librdkafka's ack") - killed_at
    trio.revive(victim)
    return raw_s * 1000, client_s * 1000


def _leads(trio: Trio, topic: str, broker: int) -> bool:
    """Returns whether the broker leads a partition. If not, it requests the election of preferred leaders (KIP-460)."""
    if any(row.leader == broker for row in trio.partitions(topic).values()):
        return True
    if trio.is_in_sync(topic):
        rows = [{"topic": topic, "partitions": list(range(PARTITIONS))}]
        with Wire(("127.0.0.1", trio.ports[trio.controller()])) as wire:
            wire.ask("ElectLeaders", 1, election_type=0, topic_partitions=rows, timeout_ms=10_000)
    return False


def _first_ack(trio: Trio, topic: str, partition: int, victim: int) -> float:
    """Returns when a record is acknowledged. If the restarted broker is back before the others notice, that broker
    acknowledges it.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        leader = trio.partitions(topic, without=victim)[partition].leader
        if leader >= 0 and _is_acked(trio.ports[leader], topic, partition):
            return time.monotonic()
        time.sleep(PAUSE_S)
    raise LoadError(f"no ack within {PATIENCE_S:g} s of the kill")


def _is_acked(port: int, topic: str, partition: int) -> bool:
    try:
        with Wire(("127.0.0.1", port), 10) as wire:
            return bool(wire.produce(topic, batch([b"after"]), partition).error_code == 0)
    except OSError:
        return False


class Stream:
    """Runs librdkafka with default settings: it sends a record to one partition every 2 ms.

    acked_at: when the last ack came.
    """

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
        self._producer = Producer(settings)
        self._target = (topic, partition)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._acks: list[float] = []

    @property
    def acked_at(self) -> float:
        """Returns the time of the last ack, or 0."""
        return self._acks[-1] if self._acks else 0.0

    def acked_after(self, moment: float) -> float:
        """Returns the time of the first ack after the moment, or 0."""
        return next((each for each in tuple(self._acks) if each > moment), 0.0)

    def _run(self) -> None:
        topic, partition = self._target
        while not self._stop.is_set():
            self._producer.produce(topic, b"x" * 100, partition=partition, on_delivery=self._on_delivery)
            self._producer.poll(PAUSE_S)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._acks.append(time.monotonic())

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(PATIENCE_S)
