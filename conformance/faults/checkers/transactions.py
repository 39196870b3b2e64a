"""Compares what transactional clients did with what readers of committed records got.

Each worker writes a journal: a line of JSON before and after each of its requests to the broker. A written line
survives the worker's kill -9. The lines about a transaction limit what readers may see of it::

    committed     commit has returned                              all of it is there
    unknown       commit was called, and no answer noted           all of it or nothing
    open          commit was never called, or abort was            nothing of it

A zombie is a worker that slept while another took its transactional id. Its commit may have begun before; a commit that
it begins after its wake-up must never be seen (``Journal.fence``).

Anomalies beside those of ``history``::

    aborted read    a record of a transaction that was not committed was given to a reader of committed records
    torn            a transaction of which a part is there and a part is not
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.drivers.base import Place
from conformance.faults.checkers.history import (
    DUPLICATE,
    INCONSISTENT,
    LOST,
    PHANTOM,
    REORDERED,
    UNSEEN,
    Anomaly,
    Row,
)
from conformance.faults.checkers.lines import Lines

ABORTED_READ, TORN = "aborted read", "torn"
OPEN, UNKNOWN, COMMITTED = "open", "unknown", "committed"
Logs = Mapping[Place, Sequence[Row]]


@dataclass
class Transaction:
    """A transaction: its records in sending order, and its outcome as far as its worker knows."""

    name: str
    sent: list[tuple[Place, bytes]] = field(default_factory=list)
    outcome: str = OPEN


class Journal:
    """Reads the lines of one worker process while it writes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.transactions: dict[str, Transaction] = {}
        self.counts: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        """The reasons why a worker gave a client up."""
        self.fenced_behind: int | None = None
        self._lines = Lines(path)

    def refresh(self) -> None:
        """Takes in the complete new lines."""
        for line in self._lines.new():
            self._take(*json.loads(line))

    def fence(self) -> None:
        """Notes that another worker took the transactional id: readers must not see any commit that begins afterwards.
        """
        self.refresh()
        self.fenced_behind = self._lines.taken

    def _take(self, word: str, name: str = "", *rest: object) -> None:
        self.counts[word] += 1
        if word == "ready":  # A zombie that begins another transaction has claimed the id again.
            self.fenced_behind = None
        elif word == "begin":
            self.transactions[name] = Transaction(name)
        elif word == "send":
            topic, partition, value = rest
            self.transactions[name].sent.append((Place(str(topic), int(str(partition))), str(value).encode()))
        elif word == "failed":
            self.told[str(rest[0])] += 1
        elif word in OUTCOMES and self._counts(word, name):
            self.transactions[name].outcome = OUTCOMES[word]

    def _counts(self, word: str, name: str) -> bool:
        """Returns whether a line counts: a zombie's does only if it ends a request from before the replacement."""
        return self.fenced_behind is None or (word == "committed" and self.transactions[name].outcome == UNKNOWN)


#: The meaning of a journal's word for its transaction. ``aborting``: the refused commit says that nothing was
#: committed.
OUTCOMES = {"committing": UNKNOWN, "committed": COMMITTED, "aborting": OPEN}


def check(transactions: Iterable[Transaction], logs: Logs) -> list[Anomaly]:
    """Returns all anomalies in ``logs``, the committed records of these transactions' topics, read at the end."""
    known = {transaction.name: transaction for transaction in transactions}
    places = {(place, value): offset for place, rows in logs.items() for offset, value in rows}
    owners = {row: transaction for transaction in known.values() for row in transaction.sent}
    return [
        *(anomaly for transaction in known.values() for anomaly in _whole(transaction, places)),
        *(anomaly for place, rows in logs.items() for anomaly in _doubled(place, rows)),
        *(
            Anomaly(PHANTOM, f"{value!r} in {place}")
            for place, rows in logs.items()
            for _, value in rows
            if (place, value) not in owners
        ),
        *(anomaly for transaction in known.values() for anomaly in _ordered(transaction, places)),
        *_ordered_by_worker(known.values(), places),
    ]


def _whole(transaction: Transaction, places: Mapping[tuple[Place, bytes], int]) -> Iterator[Anomaly]:
    """Checks that a transaction is there entirely or not at all, as its outcome demands."""
    there = [row for row in transaction.sent if row in places]
    missing = [row for row in transaction.sent if row not in places]
    if transaction.outcome == OPEN:
        yield from (Anomaly(ABORTED_READ, f"{value!r} in {place}") for place, value in there)
    elif transaction.outcome == COMMITTED:
        yield from (Anomaly(LOST, f"{value!r} in {place}") for place, value in missing)
    if transaction.outcome != OPEN and there and missing:
        yield Anomaly(TORN, f"{transaction.name}: {len(there)} records are there, {len(missing)} are not")


def _doubled(place: Place, rows: Sequence[Row]) -> Iterator[Anomaly]:
    for value, count in Counter(value for _, value in rows).items():
        if count > 1:
            yield Anomaly(DUPLICATE, f"{value!r} is {count} times in {place}")


def _ordered(transaction: Transaction, places: Mapping[tuple[Place, bytes], int]) -> Iterator[Anomaly]:
    """Checks that each partition holds a transaction's records in sending order."""
    last: dict[Place, int] = {}
    for row in transaction.sent:
        offset = places.get(row)
        if offset is None:
            continue
        if offset < last.get(row[0], -1):
            yield Anomaly(REORDERED, f"{row[1]!r} at {offset} of {row[0]}")
        last[row[0]] = offset


def _ordered_by_worker(
    transactions: Iterable[Transaction], places: Mapping[tuple[Place, bytes], int]
) -> Iterator[Anomaly]:
    """Checks that the transactions of each worker, named ``worker.number``, have the order of its journal."""
    last: dict[tuple[str, Place], int] = {}
    for transaction in transactions:
        worker = transaction.name.rpartition(".")[0]
        ends: dict[Place, int] = {}
        for place, value in transaction.sent:
            offset = places.get((place, value))
            if offset is None:
                continue
            if offset < last.get((worker, place), -1):
                yield Anomaly(REORDERED, f"{value!r} at {offset} of {place} is before an earlier transaction's")
            ends[place] = max(offset, ends.get(place, -1))
        last.update({(worker, place): offset for place, offset in ends.items()})


def check_seen(seen: Logs, logs: Logs, transactions: Iterable[Transaction]) -> list[Anomaly]:
    """Checks that a reader got the same committed records during faults as are there at the end."""
    outcomes = {row: transaction.outcome for transaction in transactions for row in transaction.sent}
    found: list[Anomaly] = []
    for place, rows in seen.items():
        final = dict(logs[place])
        offsets = {value: offset for offset, value in logs[place]}
        for offset, value in rows:
            if final.get(offset) == value:
                continue
            if value in offsets:
                found.append(Anomaly(INCONSISTENT, f"{value!r} was at {offset} of {place}, is at {offsets[value]}"))
            elif outcomes.get((place, value)) == OPEN:
                found.append(Anomaly(ABORTED_READ, f"{value!r} at {offset} of {place}, by a reader on the way"))
            else:
                found.append(Anomaly(UNSEEN, f"{value!r} at {offset} of {place}"))
        found += _doubled(place, rows)
        if [offset for offset, _ in rows] != sorted(offset for offset, _ in rows):
            found.append(Anomaly(REORDERED, f"a reader of {place} went back"))
    return found


def check_copy(source: Sequence[bytes], rows: Sequence[tuple[bytes, bytes]], name: str) -> list[Anomaly]:
    """Checks the output partition of a consume-transform-produce application: each input record once, in order. An
    output record holds its transaction's name and an input record.
    """
    copy = [value for _, value in rows]
    found = [Anomaly(LOST, f"{value!r} of {name}") for value in sorted(set(source) - set(copy))]
    found += [Anomaly(PHANTOM, f"{value!r} of {name}") for value in sorted(set(copy) - set(source))]
    for value, count in Counter(copy).items():
        if count > 1:
            by = b", ".join(transaction for transaction, other in rows if other == value).decode()
            found.append(Anomaly(DUPLICATE, f"{value!r} is {count} times in {name}: {by}"))
    if not found and list(source) != copy:
        turn = next(turn for turn, (one, other) in enumerate(zip(source, copy, strict=True)) if one != other)
        found.append(Anomaly(REORDERED, f"{copy[turn]!r} of {name} comes as number {turn}"))
    return found
