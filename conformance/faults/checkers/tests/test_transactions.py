"""The checker of transactions catches each anomaly that is planted, and nothing in a history without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.drivers.base import Place
from conformance.faults.checkers import history, transactions
from conformance.faults.checkers.history import Row
from conformance.faults.checkers.transactions import COMMITTED, OPEN, UNKNOWN, Journal, Transaction

PLACES = [Place("a", 0), Place("a", 1), Place("b", 0)]
Logs = dict[Place, list[Row]]


def written() -> tuple[list[Transaction], Logs]:
    """Writes nine transactions of two records in each of three partitions: committed, open and unknown in turn.

    Every second unknown one was committed. The log has gaps where markers and aborted records lie.
    """
    told: list[Transaction] = []
    logs: Logs = {place: [] for place in PLACES}
    for number in range(9):
        outcome = (COMMITTED, OPEN, UNKNOWN)[number % 3]
        transaction = Transaction(f"w.{number}", outcome=outcome)
        for place in PLACES:
            values = [f"w.{number}.{place.topic}{place.partition}.{turn}".encode() for turn in range(2)]
            transaction.sent += [(place, value) for value in values]
            if outcome == COMMITTED or number == 5:
                logs[place] += [(number * 3 + turn, value) for turn, value in enumerate(values)]
        told.append(transaction)
    return told, logs


def test_a_history_without_faults_has_no_anomalies() -> None:
    told, logs = written()
    assert transactions.check(told, logs) == []
    assert transactions.check_seen(logs, logs, told) == []


def lose_a_committed_record(told: list[Transaction], logs: Logs) -> None:
    del logs[PLACES[0]][0]


def lose_a_committed_transaction(told: list[Transaction], logs: Logs) -> None:
    for place in PLACES:
        del logs[place][:2]


def show_an_aborted_record(told: list[Transaction], logs: Logs) -> None:
    place, value = told[1].sent[0]
    logs[place].insert(2, (3, value))


def show_an_aborted_transaction(told: list[Transaction], logs: Logs) -> None:
    for turn, (place, value) in enumerate(told[4].sent):
        logs[place].append((100 + turn, value))


def tear_an_unknown_transaction(told: list[Transaction], logs: Logs) -> None:
    place, value = told[5].sent[-1]
    logs[place] = [row for row in logs[place] if row[1] != value]


def tear_a_transaction_over_partitions(told: list[Transaction], logs: Logs) -> None:
    for place, value in told[2].sent[:2]:
        logs[place].append((100 + len(logs[place]), value))


def double_a_record(told: list[Transaction], logs: Logs) -> None:
    logs[PLACES[1]].append((100, logs[PLACES[1]][0][1]))


def swap_within_a_transaction(told: list[Transaction], logs: Logs) -> None:
    (first, a), (second, b) = logs[PLACES[0]][:2]
    logs[PLACES[0]][:2] = [(first, b), (second, a)]


def swap_two_transactions(told: list[Transaction], logs: Logs) -> None:
    rows = logs[PLACES[0]]
    values = [value for _, value in rows]
    values[0:4] = values[2:4] + values[0:2]
    logs[PLACES[0]] = [(offset, value) for (offset, _), value in zip(rows, values, strict=True)]


def invent_a_record(told: list[Transaction], logs: Logs) -> None:
    logs[PLACES[0]].append((100, b"never sent"))


def move_a_record_to_another_partition(told: list[Transaction], logs: Logs) -> None:
    logs[PLACES[1]].append((100, logs[PLACES[0]].pop()[1]))


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (lose_a_committed_record, history.LOST),
        (lose_a_committed_record, transactions.TORN),
        (lose_a_committed_transaction, history.LOST),
        (show_an_aborted_record, transactions.ABORTED_READ),
        (show_an_aborted_transaction, transactions.ABORTED_READ),
        (tear_an_unknown_transaction, transactions.TORN),
        (tear_a_transaction_over_partitions, transactions.TORN),
        (double_a_record, history.DUPLICATE),
        (swap_within_a_transaction, history.REORDERED),
        (swap_two_transactions, history.REORDERED),
        (invent_a_record, history.PHANTOM),
        (move_a_record_to_another_partition, history.PHANTOM),
    ],
)
def test_each_planted_anomaly_is_caught(plant: Callable[[list[Transaction], Logs], None], kind: str) -> None:
    told, logs = written()
    plant(told, logs)
    assert kind in {anomaly.kind for anomaly in transactions.check(told, logs)}


def seen_before_it_was_committed(told: list[Transaction], seen: Logs) -> None:
    place, value = told[2].sent[0]
    seen[place].append((100, value))


def seen_though_aborted(told: list[Transaction], seen: Logs) -> None:
    place, value = told[1].sent[0]
    seen[place].append((100, value))


def seen_elsewhere(told: list[Transaction], seen: Logs) -> None:
    offset, value = seen[PLACES[0]][-1]
    seen[PLACES[0]][-1] = (offset + 1, value)


def seen_twice(told: list[Transaction], seen: Logs) -> None:
    seen[PLACES[0]].append(seen[PLACES[0]][-1])


def seen_backwards(told: list[Transaction], seen: Logs) -> None:
    seen[PLACES[0]].reverse()


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (seen_before_it_was_committed, history.UNSEEN),
        (seen_though_aborted, transactions.ABORTED_READ),
        (seen_elsewhere, history.INCONSISTENT),
        (seen_twice, history.DUPLICATE),
        (seen_backwards, history.REORDERED),
    ],
)
def test_a_record_read_too_early_or_wrongly_is_caught(
    plant: Callable[[list[Transaction], Logs], None], kind: str
) -> None:
    told, logs = written()
    seen = {place: list(rows) for place, rows in logs.items()}
    plant(told, seen)
    assert kind in {anomaly.kind for anomaly in transactions.check_seen(seen, logs, told)}


@pytest.mark.parametrize(
    ("copy", "kind"),
    [
        ([b"a", b"c"], history.LOST),
        ([b"a", b"b", b"b", b"c"], history.DUPLICATE),
        ([b"b", b"a", b"c"], history.REORDERED),
        ([b"a", b"b", b"c", b"d"], history.PHANTOM),
    ],
)
def test_a_copy_that_differs_from_its_source_is_caught(copy: list[bytes], kind: str) -> None:
    source = [b"a", b"b", b"c"]
    assert transactions.check_copy(source, [(b"t", value) for value in source], "copy") == []
    found = transactions.check_copy(source, [(b"t", value) for value in copy], "copy")
    assert [anomaly.kind for anomaly in found] == [kind]


def append(path: Path, *lines: tuple[object, ...]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def test_a_journal_records_the_progress_of_each_transaction(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.refresh()
    append(journal.path, ("ready",), ("begin", "w.0"), ("send", "w.0", "a", 0, "x"), ("committing", "w.0"))
    journal.refresh()
    assert journal.transactions["w.0"] == Transaction("w.0", [(Place("a", 0), b"x")], UNKNOWN)
    append(journal.path, ("committed", "w.0"), ("begin", "w.1"), ("committing", "w.1"), ("aborting", "w.1"))
    append(journal.path, ("begin", "w.2"))
    with journal.path.open("a") as file:
        file.write('["committing", "w.')
    journal.refresh()
    outcomes = {name: row.outcome for name, row in journal.transactions.items()}
    assert outcomes == {"w.0": COMMITTED, "w.1": OPEN, "w.2": OPEN}
    assert journal.counts == {"ready": 1, "begin": 3, "send": 1, "committing": 2, "committed": 1, "aborting": 1}


def test_a_commit_that_a_producer_begins_after_it_was_fenced_must_not_be_visible(tmp_path: Path) -> None:
    """The zombie's earlier requests may have succeeded."""
    journal = Journal(tmp_path / "journal")
    append(journal.path, ("begin", "w.0"), ("committing", "w.0"))
    journal.fence()
    append(journal.path, ("committed", "w.0"), ("begin", "w.1"), ("send", "w.1", "a", 0, "x"))
    append(journal.path, ("committing", "w.1"), ("committed", "w.1"))
    journal.refresh()
    assert {name: row.outcome for name, row in journal.transactions.items()} == {"w.0": COMMITTED, "w.1": OPEN}
    kinds = [row.kind for row in transactions.check(journal.transactions.values(), {Place("a", 0): [(0, b"x")]})]
    assert kinds == [transactions.ABORTED_READ]


def test_commits_of_a_fenced_producer_count_again_after_it_regains_its_id(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    append(journal.path, ("begin", "w.0"), ("committing", "w.0"))
    journal.fence()
    append(journal.path, ("failed", "w.0", "why"), ("ready",), ("begin", "w.1"), ("committing", "w.1"))
    append(journal.path, ("committed", "w.1"))
    journal.refresh()
    assert {name: row.outcome for name, row in journal.transactions.items()} == {"w.0": UNKNOWN, "w.1": COMMITTED}
