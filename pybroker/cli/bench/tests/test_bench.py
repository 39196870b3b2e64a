"""Figures, and the verbs that measure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pybroker
from pybroker.cli.bench import runs
from pybroker.cli.bench.measures import COLUMNS, Latencies, Measured
from pybroker.cli.tests.running import Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with pybroker.run() as broker:
        yield Shell(broker.bootstrap_servers)


def test_quantiles_are_the_times_that_a_share_of_records_did_not_exceed() -> None:
    times = Latencies()
    assert (times.quantile(0.5), times.average, times.greatest) == (None, None, None)
    for each in range(100, 0, -1):
        times.add(each / 1000)
    assert [times.quantile(share) for share in (0.0, 0.5, 0.99, 1.0)] == [0.001, 0.051, 0.1, 0.1]
    row = dict(zip(COLUMNS, Measured("x", 100, 1 << 20, 2.0, times).row(), strict=True))
    assert row["records_per_s"] == 50
    assert row["mb_per_s"] == 0.5
    assert row["max_ms"] == 100.0


def test_a_run_without_duration_has_no_rate() -> None:
    assert Measured("x", 0, 0, 0.0, Latencies()).row()[1:5] == (0, 0.0, 0, 0.0)


def test_values_have_their_size() -> None:
    assert {len(each) for each in runs.payloads(17)} == {17}
    assert runs.payloads(0)[0] == b""


@pytest.mark.parametrize(
    ("words", "whats"),
    [
        (("produce", "-n", 2000, "-s", 50, "-z", "lz4"), ["produce"]),
        (("produce", "-n", 2000, "--many"), ["produce"]),
        (("produce", "-n", 20, "--rate", 200), ["produce"]),
        (("consume", "-n", 2000, "-p", 2), ["consume"]),
        (("e2e", "-n", 20), ["acked", "end to end"]),
    ],
)
def test_all_figures_are_shown_and_no_topic_is_left(
    shell: Shell, words: tuple[object, ...], whats: list[str]
) -> None:
    found = shell.done("bench", *words, "-o", "jsonl").documents
    assert [each["what"] for each in found] == whats
    assert all(each["records"] == words[2] and each["records_per_s"] > 0 for each in found)
    assert shell.done("topic", "list", "-o", "name").out == ""


def test_a_topic_of_ones_own_is_kept_and_read(shell: Shell) -> None:
    shell.done("topic", "create", "own")
    assert "no records" in shell.refused("bench", "consume", "own")
    shell.done("bench", "produce", "own", "-n", 500)
    (found,) = shell.done("bench", "consume", "own", "-o", "jsonl").documents
    assert found["records"] == 500
    shell.done("topic", "delete", "own")


def test_records_that_are_refused_fail_the_run(shell: Shell) -> None:
    shell.done("topic", "create", "narrow", "-c", "max.message.bytes=100")
    assert "records were refused" in shell.refused("bench", "produce", "narrow", "-n", 50, "-s", 1000)
    shell.done("topic", "delete", "narrow")
