"""Loads in pairs: the table's ratios are the right way round, and missing measurements are reported."""

from __future__ import annotations

from pathlib import Path

from conformance.bench import pairs
from conformance.bench.pairs import CPU, LATENCY, SPEED, Load, Page, Pair, Sample, WorkerError

OURS = "ours"
PAIR = Pair("a pair", Load("confluent", "produce", 1), Load(OURS, "produce", 1), 4)
DELAY = Pair("a delay", Load("confluent", "latency", 1), Load(OURS, "latency", 1), 1, LATENCY)
PAGE = Page("a-page", "Case", [PAIR, DELAY])


def test_more_speed_and_less_cpu_are_better() -> None:
    samples = {
        PAIR.theirs: [Sample(PAIR.theirs, {SPEED: 1e6, CPU: 2.0})],
        PAIR.ours: [Sample(PAIR.ours, {SPEED: 4e6, CPU: 0.5})],
    }
    assert pairs.row(PAIR, samples) == "| a pair | 1 M/s | 4 M/s | 4.00 | ≥ 4 | 2 | 0.5 | 4.00 |"


def test_less_latency_is_better_and_medians_are_compared() -> None:
    samples = {
        DELAY.theirs: [Sample(DELAY.theirs, {LATENCY: value}) for value in (100.0, 60.0, 50.0)],
        DELAY.ours: [Sample(DELAY.ours, {LATENCY: value}) for value in (30.0, 30.0, 25.0)],
    }
    assert "| 60 µs | 30 µs | 2.00 |" in pairs.row(DELAY, samples)


def test_a_load_shared_by_two_pairs_runs_once_and_ours_follows_theirs() -> None:
    write, ours, once = Load("kafka", "write", 1), Load(OURS, "write", 1), Load(OURS, "write_exactly_once", 1)
    page = Page("a", "b", [Pair("one", write, ours), Pair("two", write, once), PAIR])
    assert list(page.loads([])) == [write, ours, once, PAIR.theirs, PAIR.ours]
    assert list(page.loads(["write_exactly_once"])) == [write, once]


def test_a_load_that_fails_does_not_end_the_others() -> None:
    good, bad = PAIR.ours, PAIR.theirs

    def put(load: Load) -> Sample:
        if load == bad:
            raise WorkerError("no such peer")
        return Sample(load, {SPEED: 1.0})

    said: list[str] = []
    assert pairs.measure([bad, good], 2, put, said.append) == {
        bad: [Sample(bad, {}, "no such peer")] * 2,
        good: [Sample(good, {SPEED: 1.0})] * 2,
    }
    assert said[:2] == ["round 1 confluent produce: skipped: no such peer", "round 1 ours produce: records_s 1"]


def test_the_page_lists_skipped_loads_and_draws_the_others(tmp_path: Path) -> None:
    pair, other = PAGE.pairs
    samples = {
        pair.theirs: [Sample(pair.theirs, {SPEED: 1e6, CPU: 1.0})] * 2,
        pair.ours: [Sample(pair.ours, {}, "no Producer"), Sample(pair.ours, {SPEED: 1.0})],
        other.theirs: [Sample(other.theirs, {LATENCY: 60.0})],
        other.ours: [Sample(other.ours, {LATENCY: 30.0})],
    }
    page = tmp_path / "benchmarks.md"
    page.write_text("before\n<!-- a-page: start -->\nold\n<!-- a-page: end -->\nafter\n")
    pairs.write(PAGE, samples, tmp_path, "Measured here.")
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("-->\nafter\n")
    assert "old" not in text
    assert "- ours `produce` was not measured in 1 of 2 rounds: no Producer" in text
    assert "![plot](img/a-page.png)" in text
    assert (tmp_path / "img" / "a-page.png").stat().st_size > 0
