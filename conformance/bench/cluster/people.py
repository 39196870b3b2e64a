"""Runs thousands of clients at once (S100). Each has a connection to the leader of its partition, writes and reads."""

from __future__ import annotations

import resource
import struct
import time

from conformance.bench.cases import Figures, LoadError, Scale
from conformance.bench.cluster.trio import Trio
from conformance.bench.pipeline import Client, Later, Load
from conformance.data.batches import batch
from harness.protocol.wire_client import encode_request

PARTITIONS = 30
ROUNDS = 5
PAUSE_S = 0.5
MARK = 0x0123456789ABCDEF
PRODUCE, FETCH = 8, 11


class Person(Client):
    """One client: it writes a record with acks=all, reads it back, waits, and repeats that."""

    def __init__(self, address: tuple[str, int], produce: bytes, fetch: bytes, name: int) -> None:
        self.address = address
        self._produce, self._fetch = produce, fetch
        self._mark = fetch.index(struct.pack(">q", MARK))
        self._prefix = 4 + 4 + 2 + name
        self._left = ROUNDS
        self._is_reading = False

    def start(self) -> bytes:
        self._left, self._is_reading = ROUNDS, False
        return self._produce

    def answer(self, reply: bytes) -> bytes | Later:
        """Reads the reply, whose body after the correlation id has one topic and one partition."""
        return self._have_read(reply) if self._is_reading else self._have_written(reply)

    def _have_written(self, reply: bytes) -> bytes:
        _, error, offset = struct.unpack_from(">ihq", reply, self._prefix + 4)
        if error:
            raise LoadError(f"a record was refused: error {error}")
        self._is_reading = True
        frame = bytearray(self._fetch)
        struct.pack_into(">q", frame, self._mark, offset)
        return bytes(frame)

    def _have_read(self, reply: bytes) -> bytes | Later:
        (error,) = struct.unpack_from(">h", reply, self._prefix + 4 + 2 + 4 + 4 + 4)
        if error or len(reply) < len(self._produce):
            raise LoadError(f"a record was not read: error {error}, {len(reply)} bytes")
        self._is_reading = False
        self._left -= 1
        self.done = not self._left
        return b"" if self.done else Later(self._produce, PAUSE_S)


def crowd(trio: Trio, scale: Scale) -> Figures:
    """Measures seconds until all clients have finished, and CPU per request and memory per client of all brokers."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    topic = trio.new_topic(PARTITIONS, min_insync_replicas=2)
    people = _people(trio, topic, scale.clients)
    memory, before, start = trio.rss_kib(), trio.cpu_s(), time.monotonic()
    load = Load(None, people)
    try:
        connected_s = time.monotonic() - start
        seconds = load.run()
        held_kib = trio.rss_kib() - memory
        cpu_s = trio.cpu_s() - before
    finally:
        load.close()
    return {
        "crowd_connect_s": connected_s,
        "crowd_s": seconds,
        "crowd_cpu_us": cpu_s * 1e6 / (2 * ROUNDS * scale.clients),
        "crowd_kib": held_kib / scale.clients,
    }


def _people(trio: Trio, topic: str, count: int) -> list[Person]:
    leaders = {n: ("127.0.0.1", trio.ports[row.leader]) for n, row in trio.partitions(topic).items()}
    frames = {n: (_produce(topic, n), _fetch(topic, n)) for n in leaders}
    return [Person(leaders[n % PARTITIONS], *frames[n % PARTITIONS], len(topic)) for n in range(count)]


def _produce(topic: str, partition: int) -> bytes:
    data = {"name": topic, "partition_data": [{"index": partition, "records": batch([b"x" * 100])}]}
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": [data]}
    return encode_request("Produce", PRODUCE, fields)


def _fetch(topic: str, partition: int) -> bytes:
    row = {"partition": partition, "current_leader_epoch": -1, "fetch_offset": MARK, "log_start_offset": -1}
    row["partition_max_bytes"] = 1
    limits = {"replica_id": -1, "max_wait_ms": 10_000, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
    session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
    fields = {**limits, **session, "topics": [{"topic": topic, "partitions": [row]}]}
    return encode_request("Fetch", FETCH, fields)
