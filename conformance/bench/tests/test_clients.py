"""The clients' benchmark: its workers run, its table has ratios the right way round, and what is missing is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.bench import clients
from conformance.bench.clients import CPU, LATENCY, OURS, SPEED, Load, Pair, Sample, WorkerError, run
from conformance.bench.null_broker import NullBroker, batch_of

PAIR = Pair("a pair", Load("confluent", "produce", 1), Load(OURS, "produce", 1), 4)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with NullBroker(batch_of(100, 500), clients.PARTITIONS) as one:
        yield one.bootstrap


@pytest.mark.parametrize(
    "load",
    [Load("confluent", "produce", 1000), Load("aio_kafka", "aio_getmany", 1000), Load("kafka_python", "consume", 1000)],
)
def test_a_worker_tells_speed_and_cpu(bootstrap: str, load: Load) -> None:
    sample = run(load, bootstrap)
    assert not sample.skipped
    assert sample.figures.keys() == {SPEED, CPU}
    assert all(value > 0 for value in sample.figures.values())


@pytest.mark.parametrize("case", ["produce", "produce_many", "consume", "consume_arrow", "aio_send", "aio_getmany"])
def test_our_worker_tells_speed_and_cpu(bootstrap: str, case: str) -> None:
    sample = run(Load(OURS, case, 20_000), bootstrap)
    assert not sample.skipped
    assert sample.figures.keys() == {SPEED, CPU}


def test_a_worker_tells_quantiles_of_latencies(bootstrap: str) -> None:
    figures = run(Load("confluent", "latency", 100), bootstrap).figures
    assert 0 < figures[LATENCY] <= figures["p99_us"]


def test_a_case_that_a_client_has_not_is_skipped_with_its_name(bootstrap: str) -> None:
    assert run(Load("confluent", "fly", 1), bootstrap) == Sample(Load("confluent", "fly", 1), {}, "no case fly")


def test_a_worker_that_fails_is_an_error_with_its_last_words(bootstrap: str) -> None:
    with pytest.raises(WorkerError, match="No module named"):
        run(Load("nobody", "produce", 1), bootstrap)


def test_more_speed_and_less_cpu_are_better() -> None:
    samples = {
        PAIR.theirs: [Sample(PAIR.theirs, {SPEED: 1e6, CPU: 2.0})],
        PAIR.ours: [Sample(PAIR.ours, {SPEED: 4e6, CPU: 0.5})],
    }
    assert clients.row(PAIR, samples) == "| a pair | 1 M/s | 4 M/s | 4.00 | ≥ 4 | 2 | 0.5 | 4.00 |"


def test_less_latency_is_better_and_medians_count() -> None:
    samples = {
        PAIR.theirs: [Sample(PAIR.theirs, {LATENCY: value}) for value in (100.0, 60.0, 50.0)],
        PAIR.ours: [Sample(PAIR.ours, {LATENCY: value}) for value in (30.0, 30.0, 25.0)],
    }
    assert "| 60 µs | 30 µs | 2.00 |" in clients.row(PAIR, samples)


def test_what_was_skipped_is_written_into_the_page_and_what_was_not_is_drawn(tmp_path: Path) -> None:
    pair, other = clients.PAIRS[0], clients.PAIRS[9]
    samples = {
        pair.theirs: [Sample(pair.theirs, {SPEED: 1e6, CPU: 1.0})],
        pair.ours: [Sample(pair.ours, {}, "no Producer")],
        other.theirs: [Sample(other.theirs, {LATENCY: 60.0})],
        other.ours: [Sample(other.ours, {LATENCY: 30.0})],
    }
    page = tmp_path / "benchmarks.md"
    page.write_text("before\n<!-- clients: start -->\nold\n<!-- clients: end -->\nafter\n")
    clients.write(samples, tmp_path, "Measured here.")
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("-->\nafter\n")
    assert "old" not in text
    assert "- ours `produce` was not measured: no Producer" in text
    assert "![plot](img/clients.png)" in text
    assert (tmp_path / "img" / "clients.png").stat().st_size > 0
