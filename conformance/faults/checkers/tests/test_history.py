"""The checker catches each anomaly that is planted, and nothing in a history without one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.faults.checkers import history
from conformance.faults.checkers.history import PartitionHistory, Row, TopicHistory, Watermark

Log = list[Row]


def written() -> tuple[PartitionHistory, Log]:
    """Records two writers; each one's last record was never acked, and the log has one of these."""
    told = PartitionHistory()
    log: Log = []
    for number in range(10):
        for writer in ("a", "b"):
            value = f"{writer}{number}".encode()
            told.send(writer, value)
            if number < 9:
                told.ack(len(log), value)
            if (writer, number) != ("b", 9):
                log.append((len(log), value))
    for offset, value in log[:10]:
        told.see(offset, value)
    return told, log


def test_a_history_without_faults_has_no_anomalies() -> None:
    told, log = written()
    assert told.check(log) == []


def test_a_record_whose_ack_was_lost_may_exist_or_not() -> None:
    told, log = written()
    assert told.check(log[:-1]) == []


def test_an_ack_without_an_offset_promises_the_record_wherever_it_is() -> None:
    told, log = written()
    told.acked = [(None, value) for _, value in told.acked]
    assert told.check(log) == []
    assert {anomaly.kind for anomaly in told.check(log[:15])} == {history.LOST}


def lose_an_acked_record(_: PartitionHistory, log: Log) -> Log:
    return log[:12] + [(offset - 1, value) for offset, value in log[13:]]


def lose_the_acked_tail(_: PartitionHistory, log: Log) -> Log:
    return log[:15]


def lose_what_was_consumed(told: PartitionHistory, log: Log) -> Log:
    told.acked.clear()
    return log[:5]


def double_a_record(_: PartitionHistory, log: Log) -> Log:
    return [*log, (len(log), log[3][1])]


def double_a_batch(_: PartitionHistory, log: Log) -> Log:
    return log + [(len(log) + place, value) for place, (_, value) in enumerate(log[-4:])]


def swap_two_records(_: PartitionHistory, log: Log) -> Log:
    (first, a), (second, b) = log[4], log[6]
    return [*log[:4], (first, b), log[5], (second, a), *log[7:]]


def swap_two_unacked_records(told: PartitionHistory, log: Log) -> Log:
    told.acked = told.acked[:4]
    told.seen = told.seen[:4]
    return swap_two_records(told, log)


def shift_an_offset(told: PartitionHistory, log: Log) -> Log:
    told.acked[7] = (8, told.acked[7][1])
    return log


def give_a_consumer_another_offset(told: PartitionHistory, log: Log) -> Log:
    told.see(18, log[17][1])
    return log


def invent_a_record(_: PartitionHistory, log: Log) -> Log:
    return [*log, (len(log), b"never sent")]


def flip_a_bit(_: PartitionHistory, log: Log) -> Log:
    offset, value = log[18]
    return [*log[:18], (offset, bytes([value[0] ^ 0x20]) + value[1:])]


def skip_an_offset(told: PartitionHistory, log: Log) -> Log:
    return [*log[:-1], (log[-1][0] + 1, log[-1][1])]


Plant = Callable[[PartitionHistory, Log], Log]


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (lose_an_acked_record, history.LOST),
        (lose_the_acked_tail, history.LOST),
        (lose_what_was_consumed, history.UNSEEN),
        (double_a_record, history.DUPLICATE),
        (double_a_batch, history.DUPLICATE),
        (swap_two_records, history.REORDERED),
        (swap_two_unacked_records, history.REORDERED),
        (shift_an_offset, history.INCONSISTENT),
        (give_a_consumer_another_offset, history.INCONSISTENT),
        (invent_a_record, history.PHANTOM),
        (flip_a_bit, history.PHANTOM),
        (skip_an_offset, history.HOLE),
    ],
)
def test_each_planted_anomaly_is_caught(plant: Plant, kind: str) -> None:
    told, log = written()
    assert kind in {anomaly.kind for anomaly in told.check(plant(told, log))}


def test_a_committed_offset_is_between_what_was_acked_and_what_was_tried() -> None:
    mark = Watermark("offset")
    assert mark.check(-1) == []
    mark.trying(5)
    mark.ack(5)
    mark.trying(9)
    assert [mark.check(found) for found in (5, 9)] == [[], []]
    assert [mark.check(found)[0].kind for found in (4, -1, 10)] == [
        history.WENT_BACK,
        history.WENT_BACK,
        history.PHANTOM,
    ]


def test_topics_stay_as_they_were_acked() -> None:
    told = TopicHistory()
    for name in ("kept", "gone", "half", "unanswered"):
        told.creating(name, 3)
    for name in ("kept", "gone", "half"):
        told.created(name)
    told.deleting("gone")
    told.deleted("gone")
    told.deleting("half")
    for found in ({"kept": 3}, {"kept": 3, "half": 3}, {"kept": 3, "unanswered": 3}):
        assert told.check(found) == []
    planted = {
        history.LOST: {"half": 3},
        history.WENT_BACK: {"kept": 3, "gone": 3},
        history.HOLE: {"kept": 2},
        history.PHANTOM: {"kept": 3, "invented": 3},
    }
    for kind, found in planted.items():
        assert [anomaly.kind for anomaly in told.check(found)] == [kind]
