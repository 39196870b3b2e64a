"""The suite of sizes: exponents, what they leave out, the table, and every row on a broker of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.bench.__main__ import SETTINGS
from conformance.bench.scale import Sample, measure, table, write
from conformance.bench.scale.growth import clear, exponent
from conformance.bench.scale.page import ROWS
from conformance.bench.scale.spent import CPU, SECONDS


def sample(partitions: int, cpu_s: float, broker: str = "ours", items: int = 0, calls: int = 1) -> Sample:
    figures = {SECONDS: 2 * cpu_s, CPU: cpu_s}
    return Sample(broker, 1, partitions, "metadata", figures, items or partitions, calls)


def test_the_exponent_is_the_slope_between_logarithms() -> None:
    assert exponent([(n, 3 * n**1.5) for n in (100, 1_000, 5_000)]) == pytest.approx(1.5)
    assert exponent([(100, 1.0)]) is exponent([]) is None


def test_a_small_measurement_counts_only_with_enough_calls() -> None:
    found = [sample(100, 0.01), sample(1_000, 0.01, calls=10), sample(5_000, 0.1)]
    assert clear(found, "ours", "metadata", CPU) == [(1_000, 0.01), (5_000, 0.1)]


def test_a_row_about_fewer_items_compares_the_cost_per_item() -> None:
    found = [sample(1_000, 1.0), sample(5_000, 1.0, items=1_000)]
    assert clear(found, "ours", "metadata", CPU) == [(1_000, 1.0), (5_000, 5.0)]


def test_the_page_compares_the_largest_size_of_both_and_says_what_is_missing(tmp_path: Path) -> None:
    found = [sample(size, size / 1_000, broker=broker) for size in (100, 1_000) for broker in ("ours", "kafka")]
    found += [sample(5_000, 25.0), Sample("kafka", 1, 5_000, "everything", {}, skipped="too large")]
    text = table(found)
    last = "| … broker CPU, s | 1,000 | 1 | 1 | 1.00 | n^1.38, last n^2.00 | n^1.00 | ≤ n^1.1: missed |"
    assert last in text
    assert "- everything of Kafka with 5,000 partitions was not measured: too large" in text
    (tmp_path / "benchmarks.md").write_text("<!-- scale: start -->\n<!-- scale: end -->\n")
    write(found, tmp_path, "Measured here.")
    assert text in (tmp_path / "benchmarks.md").read_text()
    assert (tmp_path / "img" / "scale.png").stat().st_size > 0


def test_every_row_is_measured() -> None:
    found = measure([100], 1, ["ours"], [], lambda _: None, SETTINGS)
    assert [one.skipped for one in found if one.skipped] == []
    assert {one.row: sorted(one.figures) for one in found} == {row.name: sorted(row.figures) for row in ROWS}
