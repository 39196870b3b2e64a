"""Measures clients against the null broker: our SDK and other clients, each load in its own process, one after the
other.

Wall time needs a quiet machine, with a core each for client and broker; CPU per million records is less sensitive. The
same loads also run against a broker of ``harness.servers.brokers``, which fills the topic first.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from conformance.bench import pairs
from conformance.bench.filling import fill
from conformance.bench.null_broker import NullBroker, batch_of
from conformance.bench.pairs import LATENCY, SPEED, Load, Page, Pair, Sample, Samples
from conformance.bench.workers import CA, TOPIC
from harness.servers.brokers import KINDS, Broker
from harness.servers.encrypted import EncryptedBroker

B = TypeVar("B", bound=Broker)

PARTITIONS = 4
SIZE = 100
#: Records of the batch that is served: some 55 KB.
BATCH_RECORDS = 500
#: Records of partition 0 of a broker that is not the null broker: what a consumer may read at most.
FILLED = 2_000_000
TIMEOUT_S = 30
NULL = "null"
OURS = "ours"


def _pair(title: str, theirs: tuple[str, str, int], ours: tuple[str, int], goal: float | None = None) -> Pair:
    figure = LATENCY if "latency" in ours[0] else SPEED
    return Pair(title, Load(*theirs), Load(OURS, *ours), goal, figure)


PAIRS = (
    _pair("`send` / `produce`", ("confluent", "produce", 600_000), ("produce", 2_000_000), 4),
    _pair("`send` with a callback", ("confluent", "produce_callback", 400_000), ("produce_callback", 1_000_000), 2),
    _pair("`send_many` of a list / `produce`", ("confluent", "produce", 600_000), ("produce_many", 5_000_000), 10),
    _pair("`send_many` of Arrow / `produce`", ("confluent", "produce", 600_000), ("produce_arrow", 5_000_000), 10),
    _pair("`send_many` / `produce_batch`", ("confluent", "produce_many", 800_000), ("produce_many", 5_000_000)),
    _pair("`poll`, values read / `consume`, tuned", ("confluent", "consume", 2_000_000), ("consume", 3_000_000), 4),
    _pair("`for record in` / `poll`", ("confluent", "consume_one_by_one", 600_000), ("consume_one_by_one", 2_000_000)),
    _pair("`poll_arrow` / `consume`, tuned", ("confluent", "consume", 2_000_000), ("consume_arrow", 10_000_000), 5),
    _pair("`poll_arrow` / its default", ("confluent", "consume_default", 300_000), ("consume_arrow", 10_000_000), 10),
    _pair("one at a time, acked", ("confluent", "latency", 4_000), ("latency", 4_000), 1),
    _pair("asyncio: `send` / aiokafka", ("aio_kafka", "aio_send", 60_000), ("aio_send", 1_000_000), 20),
    _pair("asyncio: `poll` / `getmany`", ("aio_kafka", "aio_getmany", 400_000), ("aio_getmany", 3_000_000), 10),
    _pair("asyncio: one at a time, acked", ("aio_kafka", "aio_latency", 3_000), ("aio_latency", 3_000), 1),
    _pair("`send` / kafka-python", ("kafka_python", "produce", 20_000), ("produce", 2_000_000)),
    _pair("`poll` / kafka-python", ("kafka_python", "consume", 60_000), ("consume", 3_000_000)),
)
PAGE = Page("clients", "Case (ours / theirs), 100 B", PAIRS)
BY_TLS = Page(
    "tls-clients",
    "Case by TLS (ours / theirs), 100 B",
    (
        _pair("`send` / `produce`", ("confluent", "produce", 600_000), ("produce", 2_000_000), 3),
        _pair("`send_many` of a list / `produce`", ("confluent", "produce", 600_000), ("produce_many", 5_000_000), 3),
        _pair("`poll`, values read / `consume`, tuned", ("confluent", "consume", 1_000_000), ("consume", 1_000_000), 3),
        _pair("one at a time, acked", ("confluent", "latency", 4_000), ("latency", 4_000), 1),
    ),
)
"""Our broker serves these: the null broker has no TLS."""


def run(load: Load, bootstrap: str, ca: Path | None = None) -> Sample:
    """Runs one load on the broker, by TLS if there is a certificate to trust. Raises WorkerError."""
    command = [sys.executable, "-m", f"conformance.bench.workers.{load.worker}", bootstrap]
    env = os.environ | {CA: str(ca)} if ca else None
    return pairs.run(load, [*command, load.case, str(load.records)], TIMEOUT_S, env)


@contextlib.contextmanager
def served(kind: str, say: Callable[[str], None]) -> Iterator[str]:
    """Yields the address of a broker whose topic can be read. ``kind`` is ``null`` or one of
    ``harness.servers.brokers``.
    """
    if kind == NULL:
        with NullBroker(batch_of(SIZE, BATCH_RECORDS), PARTITIONS) as null:
            yield null.bootstrap
            if logged := null.logged():
                say(logged)
        return
    with _filled(KINDS[kind]) as broker:
        yield broker.bootstrap


@contextlib.contextmanager
def _filled(kind: Callable[[Path], B]) -> Iterator[B]:
    with tempfile.TemporaryDirectory(prefix="bench-clients-") as folder, kind(Path(folder, "data")) as broker:
        fill(broker, TOPIC, PARTITIONS, batch_of(SIZE, BATCH_RECORDS), FILLED // BATCH_RECORDS, into=1)
        yield broker


def measure(
    rounds: int, share: float, only: Collection[str], say: Callable[[str], None], kind: str = NULL
) -> Samples:
    """Runs all loads of the chosen pairs ``rounds`` times, each with ``share`` of its records. A load in two pairs runs
    once.

    ``only`` names cases, theirs or ours; if it is empty, all run.
    """
    with served(kind, say) as bootstrap:
        return pairs.measure(
            PAGE.loads(only), rounds, lambda load: run(_sized(load, share, kind), bootstrap), say
        )


def measure_tls(rounds: int, share: float, only: Collection[str], say: Callable[[str], None]) -> Samples:
    """Measures ``BY_TLS`` as ``measure`` does its pairs."""
    with _filled(EncryptedBroker) as broker:
        return pairs.measure(
            BY_TLS.loads(only), rounds, lambda load: run(_sized(load, share), broker.encrypted, broker.ca), say
        )


def _sized(load: Load, share: float, kind: str = OURS) -> Load:
    """Returns the load with at most as many records as a consumer can read. The filled topic must suffice for the
    warm-up, the load, and the records that are fetched ahead.
    """
    records = max(1_000, int(load.records * share))
    return replace(load, records=records if kind == NULL else min(records, FILLED // 2))
