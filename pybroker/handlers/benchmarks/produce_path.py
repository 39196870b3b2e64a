"""The cost of a small produce in this process, step by step, without its sockets.

    python -m pybroker.handlers.benchmarks.produce_path

One record of 100 bytes a request, one partition, acks=1, to a log in a temporary folder. It measures decoding the
request, the log's append alone (with its write), the whole handler, and encoding the response. Then it measures the
same with a fetch waiting for every record. The transactional batch is a duplicate, in an open transaction. So nothing
is written, and the time shows what the handler does about transactions. Each figure is the best of several runs, in
microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import uvloop

from cy.batch import Builder
from pybroker.clock import SystemClock
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from pybroker.config import BrokerConfig, topic_config
from pybroker.handlers import fetch, produce
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.turns import Turns
from pybroker.log.files.storage import Storage
from pybroker.log.manager import LogManager
from pybroker.pools import Pools
from pybroker.replication.replica_manager import ReplicaManager
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import Fetch, Produce
from pyclient.protocol.frames import decode_request_header

VERSION = 11
FETCH_VERSION = 12
TOPIC_ID = bytes(range(16))
LENGTH_FIELD = 4
NO_OFFSET = bytes(8)
"""The base offset in a client's batch; an append writes the real one over it."""


class Bench:
    """A broker of one partition, and one produce request."""

    def __init__(self, folder: str, loop: asyncio.AbstractEventLoop) -> None:
        config, clock = BrokerConfig(), SystemClock()
        pools = Pools.one(ThreadPoolExecutor(1))
        logs = LogManager(
            [folder],
            Storage(),
            topic_config(config, {}),
            clock,
            cluster_id="bench",
            node_id=1,
            pools=pools,
        )
        logs.load()
        self.replicas = ReplicaManager(1, logs, config, clock, loop, pools)
        topic = TopicImage("bench", TOPIC_ID, (PartitionImage(0, 1, 0, 0, (1,), (1,)),))
        delta = MetadataDelta(changed={"bench": topic})
        image = MetadataImage().apply(delta)
        loop.run_until_complete(self.replicas.apply(delta, image))
        self.partition = self.replicas.partition(TopicPartition("bench", 0))
        connection: Any = SimpleNamespace()
        broker: Any = SimpleNamespace(
            authorizer=None,
            replicas=self.replicas,
            clock=clock,
            config=config,
            metadata=SimpleNamespace(image=image),
            turns=Turns(),
            quotas=None,
        )
        self.call = Call(broker, VERSION, "bench", connection)
        self.fetch_call = Call(broker, FETCH_VERSION, "bench", connection)
        self.loop = loop
        self.now_ms = clock.now_ms()
        builder = Builder()
        builder.append(self.now_ms, None, bytes(100))
        self.records = bytearray(builder.build())
        self.frame = bytearray(self.request_frame())
        self.request = self.decode()
        self.request_records: Any = self.request.topic_data[0].partition_data[0].records
        self.response: Any = produce.handle(self.request, self.call)
        self.transactional = self.transactional_request(bytes(100))
        batch = self.transactional_records = self.transactional.topic_data[0].partition_data[0].records
        self.replicas.append_to(self.partition, batch, 1, self.now_ms, transaction_version=1)

    def request_frame(self) -> bytes:
        """Returns a Produce request as a client sends it."""
        request = Produce.Request(
            acks=1,
            timeout_ms=1000,
            topic_data=[
                Produce.Request.TopicProduceData(
                    name="bench",
                    partition_data=[Produce.Request.PartitionProduceData(index=0, records=bytes(self.records))],
                )
            ],
        )
        frame = Produce.encode_request(VERSION, 1, "bench", request)
        return frame if isinstance(frame, bytes) else b"".join(frame)  # type: ignore[arg-type]

    def transactional_request(self, value: bytes) -> Any:
        """Returns the first batch of a transaction."""
        builder = Builder(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        builder.append(self.now_ms, None, value)
        data = Produce.Request.PartitionProduceData(index=0, records=bytearray(builder.build()))
        topic = Produce.Request.TopicProduceData(name="bench", partition_data=[data])
        return Produce.Request(acks=1, timeout_ms=1000, transactional_id="x", topic_data=[topic])

    def append_transactional(self) -> None:
        """Runs the log's part, which finds that the log has the batch."""
        self.transactional_records[:8] = NO_OFFSET
        self.replicas.append_to(self.partition, self.transactional_records, 1, self.now_ms, transaction_version=1)

    def handle_transactional(self) -> None:
        """Runs the handler with the log's part, for a transactional request."""
        self.transactional_records[:8] = NO_OFFSET
        produce.handle(self.transactional, self.call)

    def decode(self) -> Produce.Request:
        """Returns the Produce request as its handler gets it."""
        view = memoryview(self.frame)
        header = decode_request_header(view, LENGTH_FIELD, len(view))
        return Produce.decode_request(VERSION, view, header.position, len(view))

    def append(self) -> None:
        """Runs only the log's part."""
        self.records[:8] = NO_OFFSET
        self.partition.log.append_as_leader(self.records, 0, self.now_ms)

    def handle(self) -> None:
        """Runs the handler with the log's part."""
        self.request_records[:8] = NO_OFFSET
        produce.handle(self.request, self.call)

    def encode(self) -> None:
        """Encodes the response for the client."""
        Produce.encode_response(VERSION, 1, self.response)

    def whole(self) -> None:
        """Decodes, handles and encodes."""
        self.request_records[:8] = NO_OFFSET
        response: Any = produce.handle(self.decode(), self.call)
        Produce.encode_response(VERSION, 1, response)

    def fetch_request(self) -> Fetch.Request:
        """Returns a fetch from the log's end."""
        partition = Fetch.Request.FetchPartition(
            partition=0,
            fetch_offset=self.partition.log.log_end_offset,
            partition_max_bytes=1 << 20,
        )
        topic = Fetch.Request.FetchTopic(topic="bench", partitions=[partition])
        return Fetch.Request(max_wait_ms=500, min_bytes=1, topics=[topic])

    def whole_with_fetch(self) -> None:
        """Runs ``whole`` while a fetch waits for the record."""
        waiting = fetch.handle(self.fetch_request(), self.fetch_call)
        self.whole()
        Fetch.encode_response(FETCH_VERSION, 1, waiting.result())


def best_us(work: Callable[[], object], count: int, runs: int = 5) -> float:
    """Returns how many microseconds a call takes, in the best of several runs."""
    best = float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        for _ in range(count):
            work()
        best = min(best, time.perf_counter() - begin)
    return best / count * 1e6


def main() -> None:
    """Prints the table of measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="requests a run")
    count = parser.parse_args().count
    loop = uvloop.new_event_loop()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, loop)
        measure = functools.partial(best_us, count=count)
        append, handle = measure(bench.append), measure(bench.handle)
        rows = {
            "decode the request": measure(bench.decode),
            "log.append_as_leader": append,
            "handler": handle,
            "handler above the log": handle - append,
            "transactional, above log": measure(bench.handle_transactional) - measure(bench.append_transactional),
            "encode the response": measure(bench.encode),
            "all": measure(bench.whole),
            "all, and a waiting fetch": measure(bench.whole_with_fetch),
        }
        for name, microseconds in rows.items():
            print(f"{name:26} {microseconds:6.2f} µs")
        bench.replicas.close()


if __name__ == "__main__":
    main()
