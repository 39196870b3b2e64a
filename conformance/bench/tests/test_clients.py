"""The clients' benchmark: its workers run, and missing ones are reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.bench import clients
from conformance.bench.clients import OURS, run
from conformance.bench.null_broker import NullBroker, batch_of
from conformance.bench.pairs import CPU, LATENCY, SPEED, Load, Sample, WorkerError
from conformance.bench.workers import TOPIC
from harness.servers.encrypted import EncryptedBroker


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with NullBroker(batch_of(100, 500), clients.PARTITIONS) as one:
        yield one.bootstrap


@pytest.mark.parametrize(
    "load",
    [Load("confluent", "produce", 1000), Load("aio_kafka", "aio_getmany", 1000), Load("kafka_python", "consume", 1000)],
)
def test_a_worker_reports_speed_and_cpu(bootstrap: str, load: Load) -> None:
    sample = run(load, bootstrap)
    assert not sample.skipped
    assert sample.figures.keys() == {SPEED, CPU}
    assert all(value > 0 for value in sample.figures.values())


@pytest.mark.parametrize("case", ["produce", "produce_many", "consume", "consume_arrow", "aio_send", "aio_getmany"])
def test_the_pyclient_worker_reports_speed_and_cpu(bootstrap: str, case: str) -> None:
    sample = run(Load(OURS, case, 20_000), bootstrap)
    assert not sample.skipped
    assert sample.figures.keys() == {SPEED, CPU}


@pytest.mark.parametrize("worker", ["confluent", OURS])
def test_a_worker_connects_by_tls_to_a_broker_with_a_certificate(tmp_path: Path, worker: str) -> None:
    with EncryptedBroker(tmp_path / "data") as broker:
        broker.make_topic(TOPIC, clients.PARTITIONS)
        assert run(Load(worker, "produce", 1_000), broker.encrypted, broker.ca).figures.keys() == {SPEED, CPU}
        with pytest.raises(WorkerError):
            run(Load(worker, "latency", 1), broker.encrypted)


def test_a_worker_reports_quantiles_of_latencies(bootstrap: str) -> None:
    figures = run(Load("confluent", "latency", 100), bootstrap).figures
    assert 0 < figures[LATENCY] <= figures["p99_us"]


def test_a_benchmark_that_a_client_lacks_is_skipped_and_named(bootstrap: str) -> None:
    assert run(Load("confluent", "fly", 1), bootstrap) == Sample(Load("confluent", "fly", 1), {}, "no case fly")


def test_the_error_of_a_failed_worker_has_its_last_output(bootstrap: str) -> None:
    with pytest.raises(WorkerError, match="No module named"):
        run(Load("nobody", "produce", 1), bootstrap)
