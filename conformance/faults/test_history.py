"""The checker catches every anomaly that is planted, and nothing where there is none."""

from __future__ import annotations

import pytest

from conformance.faults.history import History

T = ("t", 0)


def good() -> History:
    """Three values, all acked, read twice."""
    history = History()
    history.sent[T] = [b"a", b"b", b"c"]
    history.acked[T] = [(b"a", 0), (b"b", 1), (b"c", 2)]
    history.reads[T] = [[(0, b"a"), (1, b"b"), (2, b"c")], [(1, b"b"), (2, b"c")]]
    return history


def test_a_good_history_has_no_anomaly() -> None:
    assert good().anomalies() == []


def test_an_unacked_value_may_be_there_or_not() -> None:
    history = good()
    history.sent[T] += [b"d", b"e"]
    history.reads[T].append([(2, b"c"), (3, b"e")])
    assert history.anomalies() == []


@pytest.mark.parametrize(
    ("read", "anomaly"),
    [
        ([(0, b"a"), (1, b"c")], "lost write"),
        ([(0, b"a"), (1, b"b"), (2, b"b"), (3, b"c")], "duplicate"),
        ([(0, b"a"), (1, b"b"), (2, b"c"), (3, b"z")], "phantom"),
        ([(0, b"b"), (1, b"a"), (2, b"c")], "nonmonotonic send"),
        ([(0, b"a"), (2, b"c")], "poll skip"),
        ([(0, b"a"), (2, b"c"), (1, b"b")], "nonmonotonic poll"),
        ([(0, b"b"), (1, b"a"), (2, b"c")], "inconsistent offset"),
    ],
)
def test_a_planted_anomaly_is_found(read: list[tuple[int, bytes]], anomaly: str) -> None:
    history = good()
    history.reads[T] = [read]
    assert any(line.startswith(anomaly) for line in history.anomalies())


def test_two_reads_that_disagree_are_found() -> None:
    history = good()
    history.sent[T].append(b"d")
    history.reads[T].append([(2, b"d")])
    assert any(line.startswith("inconsistent offset") for line in history.anomalies())


def test_duplicates_are_allowed_where_nobody_promised_none() -> None:
    history = good()
    history.reads[T] = [[(0, b"a"), (1, b"b"), (2, b"b"), (3, b"c")]]
    acked = [line for line in history.anomalies(idempotent=False) if "duplicate" in line]
    assert acked == []
