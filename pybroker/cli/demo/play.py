"""The demo from its beginning to its end."""

from __future__ import annotations

import logging
import signal
import time
from typing import Any

from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Failure
from pybroker.cli.demo import copying, latency, speed
from pybroker.cli.demo.dataset import Dataset
from pybroker.cli.demo.file import File
from pybroker.cli.demo.flights import Flights
from pybroker.cli.demo.leaving import Leaving
from pybroker.cli.demo.report import Report, next_steps
from pybroker.cli.demo.stage import Stage
from pybroker.cli.demo.streaming import stream
from pybroker.embedded import BrokerFailed, EmbeddedBroker
from pyclient import Admin, NewTopic

PARTITIONS = 4
SETTINGS: dict[str, Any] = {
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 200,
    "group_consumer_assignment_interval_ms": 0,
}
"""Groups form at once; everything else is at its default."""


def play(file: str | None, key: str | None, limit: int, keep: bool, output: str, leaving: Leaving) -> None:
    """Runs the demo and shows the report. Raises KafkaError, and Failure, also if a record was lost or doubled."""
    logging.getLogger("pyclient").addHandler(logging.NullHandler())
    dataset: Dataset = Flights() if file is None else File(file, key)
    stage = Stage()
    began = time.perf_counter()
    try:
        leaving.broker = EmbeddedBroker(**SETTINGS)
        with leaving.broker as broker:
            started_s = time.perf_counter() - began
            bootstrap = broker.bootstrap_servers
            stage.say(f"A broker at {bootstrap}, started in {started_s:.2f} s.")
            report = acts(bootstrap, dataset, limit, stage, started_s)
            write(report.as_json() if output == "json" else report.as_text())
            stage.say(next_steps(dataset, bootstrap if keep else None))
            if keep:
                signal.sigwait({signal.SIGINT, signal.SIGTERM})
            if not report.is_exact:
                raise Failure(f"records were lost or duplicated; the broker logged:\n{broker.log}")
    except BrokerFailed as error:
        raise Failure(str(error)) from error


def acts(bootstrap: str, dataset: Dataset, limit: int, stage: Stage, started_s: float) -> Report:
    """Streams, copies and measures latency; returns the report."""
    topics = {dataset.topic: PARTITIONS, copying.target_of(dataset): 1, speed.TOPIC: PARTITIONS, latency.TOPIC: 1}
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(name, count) for name, count in topics.items()])
    total = None if dataset.total is None else min(dataset.total, limit)
    title = f"Streaming {dataset.title} to a group of two consumers."
    with stage.step(title, ("sent", "read"), total) as bars:
        streamed = stream(bootstrap, dataset, limit, PARTITIONS, bars)
    if not streamed.records:
        raise Failure(f"{dataset.title}: it is empty")
    if streamed.records == limit:
        stage.say(f"These were the first {limit:,} records: -n takes more, or fewer.")
    title = f"Copying those {dataset.copied} to another topic, exactly once; the worker fails in its third transaction."
    with stage.step(title, ("copied",), streamed.records) as bars:
        copied = copying.copy(bootstrap, dataset, streamed.records, bars)
    with stage.step("Reading all of it again, and sending it again.", ("read again",), streamed.records) as bars:
        again = speed.race(bootstrap, dataset.topic, bars)
    count = latency.samples(streamed.records)
    with stage.step("Measuring latency.", ("acked", "received"), count) as bars:
        latencies = latency.measure(bootstrap, count, bars)
    return Report(dataset.title, dataset.copied, started_s, streamed, copied, again, latencies)
