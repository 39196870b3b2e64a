"""A broker that is killed and comes back under load: idempotent sends give none lost, doubled, reordered."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from harness.faults.proxy import FaultProxy
from pyclient import Consumer, Producer, TopicPartition
from pyclient.admin import Admin
from pyclient.errors import KafkaError
from pyclient.tests.support import PATIENCE_S, read_all, take, until

PARTITIONS = 3
AHEAD = 2000


class Kills(threading.Thread):
    """Kills and starts the broker each time the load has advanced."""

    def __init__(self, broker, count, progress):
        super().__init__()
        self.broker, self.count, self.progress = broker, count, progress
        self.over = threading.Event()
        self.error = None

    def run(self):
        try:
            for _ in range(self.count):
                begun = self.progress()
                until(lambda begun=begun: self.progress() > begun + 3000, "progress")
                self.broker.crash()
        except BaseException as error:
            self.error = error
        finally:
            self.over.set()


def create(bootstrap, topic, partitions):
    with Admin(bootstrap) as admin:
        admin.create_topics(topic, num_partitions=partitions, replication_factor=1)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_broker_kills_under_load_lose_duplicate_or_reorder_no_record(own_broker, codec):
    create(own_broker.bootstrap, "t", PARTITIONS)
    sent = 0
    callbacks = []
    kills = Kills(own_broker, 2, lambda: len(callbacks))
    with Producer(own_broker.bootstrap, batch_size=2000, linger_ms=1, compression_type=codec) as producer:
        kills.start()
        pending = deque()
        while not kills.over.is_set() or sent < 20_000:
            on_delivery = lambda metadata, error, n=sent: callbacks.append((n, metadata, error))  # noqa: E731
            pending.append(
                producer.send("t", value=b"%d" % sent, partition=sent % PARTITIONS, on_delivery=on_delivery)
            )
            sent += 1
            if len(pending) > AHEAD:
                pending.popleft().result(PATIENCE_S)
        producer.flush(PATIENCE_S)
    kills.join()
    assert kills.error is None
    assert len(callbacks) == sent
    assert not [error for _, _, error in callbacks if error is not None]
    found = {number: [] for number in range(PARTITIONS)}
    told = {(metadata.partition, metadata.offset): n for n, metadata, _ in callbacks if metadata.offset >= 0}
    for record in read_all(own_broker.bootstrap, "t", PARTITIONS):
        found[record.partition].append(int(record.value))
        assert told.get((record.partition, record.offset), int(record.value)) == int(record.value)
    for number in range(PARTITIONS):
        assert found[number] == list(range(number, sent, PARTITIONS))


def committed(producer, value):
    try:
        with producer.transaction():
            producer.send("t", value=value)
    except KafkaError as error:
        if error.fatal:
            raise
        return False
    return True


def test_groups_and_transactions_continue_after_a_broker_kill(own_broker):
    bootstrap = own_broker.bootstrap
    create(bootstrap, "t", 1)
    settings = {"group_id": "g", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with (
        Producer(bootstrap, transactional_id="txn") as producer,
        Consumer(bootstrap, topics="t", enable_auto_commit=False, **settings) as consumer,
    ):
        with producer.transaction():
            producer.send("t", value=b"before")
        assert bytes(take(consumer, 1)[0].value) == b"before"
        consumer.commit()
        own_broker.crash()
        # what the first attempt meets may have to be aborted; the application tries again
        until(lambda: committed(producer, b"after"), "a transaction after the restart")
        found = take(consumer, 1)
        while found and bytes(found[-1].value) == b"before":
            found = take(consumer, 1)
        assert bytes(found[-1].value) == b"after"
        consumer.commit()
        place = TopicPartition("t", 0)
        assert consumer.committed([place])[place].offset == consumer.position(place)


def test_acks_lost_in_a_clean_stop_are_reported_in_order_without_duplicates(own_broker, pytestconfig):
    """Kafka then knows only the last batch of a producer and takes the others for a gap, so their offsets stay unknown.
    A producer that sent them again would write them twice.
    """
    told = []
    own_broker.stop()
    with FaultProxy(lambda: own_broker.address) as proxy:
        own_broker.config["advertised.listeners"] = f"PLAINTEXT://{proxy.bootstrap}"
        own_broker.start()
        create(proxy.bootstrap, "t", 1)
        log = own_broker.partition_dir("t") / f"{0:020}.log"
        with Producer(proxy.bootstrap, batch_size=0) as producer:
            producer.send("t", value=b"0", partition=0).result(PATIENCE_S)
            proxy.black_hole(requests=False, replies=True)
            for number in range(1, 9):
                on_delivery = lambda metadata, error, n=number: told.append((n, error or metadata.offset))  # noqa: E731
                producer.send("t", value=b"%d" % number + bytes(1000), partition=0, on_delivery=on_delivery)
            # five at once, or four where a request for metadata waits for its answer beside them
            until(lambda: log.stat().st_size > 4_000, "batches that are not acknowledged")
            own_broker.stop()
            last = log.stat().st_size // 1_000
            proxy.heal()
            proxy.cut()
            own_broker.start()
            producer.flush(PATIENCE_S)
        values = [record.value.rstrip(b"\0") for record in read_all(proxy.bootstrap, "t")]
    assert values == [b"%d" % number for number in range(9)]
    known = [number for number, offset in told if offset == number]
    assert [number for number, _ in told] == list(range(1, 9))
    assert known == list(range(1 if pytestconfig.getoption("--broker") == "ours" else last, 9))
    assert all(offset == -1 for number, offset in told if number not in known)
