"""Compares what clients were told with what the broker holds afterwards.

During the faults, writers, readers and committers note what they sent and the answers. At the end the log is read once
more, and each history returns its anomalies. Their names are those of Jepsen's Kafka workload, where it has one.

    lost                  acked, and not in the log
    unseen                a consumer got it, but it is not in the log
    duplicate             more than once in the log, though it was sent once
    inconsistent offset   acked or consumed at one offset, in the log at another
    reordered             behind a record that its writer sent later
    phantom               in the log, but never sent
    hole                  an offset in the middle of an uncompacted log that has no record
    went back             a committed offset, or a topic, that is older than what was acked
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

LOST, UNSEEN, DUPLICATE, REORDERED = "lost", "unseen", "duplicate", "reordered"
INCONSISTENT, PHANTOM, HOLE, WENT_BACK = "inconsistent offset", "phantom", "hole", "went back"

Row = tuple[int, bytes]


class Anomaly(NamedTuple):
    """A violation of the broker's promises."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class PartitionHistory:
    """The history of a partition: who sent what in which order, which offsets were acked, what was consumed.

    Every value is sent once, by one writer; a client that retries by itself counts as sending once.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent: dict[str, list[bytes]] = defaultdict(list)
        self.acked: list[tuple[int | None, bytes]] = []
        self.seen: list[Row] = []

    def send(self, writer: str, value: bytes) -> None:
        """Notes that ``writer`` is about to send this value."""
        with self._lock:
            self.sent[writer].append(value)

    def ack(self, offset: int | None, value: bytes) -> None:
        """Notes that the broker promised to keep this value at this offset; None: the client reports no offset."""
        with self._lock:
            self.acked.append((offset, value))

    def see(self, offset: int, value: bytes) -> None:
        """Notes that a consumer got this record."""
        with self._lock:
            self.seen.append((offset, value))

    def check(self, log: Sequence[Row]) -> list[Anomaly]:
        """Compares the history with the log, read at the end from first offset to last."""
        with self._lock:
            return [
                *_promises(log, self.acked, LOST),
                *_promises(log, self.seen, UNSEEN),
                *_duplicates(log),
                *_holes(log),
                *_order(log, self.sent),
            ]


def _promises(log: Sequence[Row], promised: Iterable[tuple[int | None, bytes]], missing: str) -> Iterator[Anomaly]:
    """Checks that the log has each promised record, at its offset if that is known."""
    present = set(log)
    places = {value: offset for offset, value in log}
    for offset, value in promised:
        if (offset, value) in present or (offset is None and value in places):
            continue
        if value in places:
            yield Anomaly(INCONSISTENT, f"{value!r} was at {offset}, is at {places[value]}")
        else:
            yield Anomaly(missing, f"{value!r} at {offset}")


def _duplicates(log: Sequence[Row]) -> Iterator[Anomaly]:
    for value, count in Counter(value for _, value in log).items():
        if count > 1:
            offsets = [offset for offset, other in log if other == value]
            yield Anomaly(DUPLICATE, f"{value!r} at {offsets}")


def _holes(log: Sequence[Row]) -> Iterator[Anomaly]:
    for (offset, _), (following, _) in itertools.pairwise(log):
        if following != offset + 1:
            yield Anomaly(HOLE, f"{following} follows {offset}")


def _order(log: Sequence[Row], sent: dict[str, list[bytes]]) -> Iterator[Anomaly]:
    """Checks that each writer's records are in sending order, and that there are no others."""
    turns = {value: (writer, turn) for writer, rows in sent.items() for turn, value in enumerate(rows)}
    latest: dict[str, int] = {}
    for offset, value in log:
        if value not in turns:
            yield Anomaly(PHANTOM, f"{value!r} at {offset}")
            continue
        writer, turn = turns[value]
        if turn < latest.get(writer, -1):
            later = sent[writer][latest[writer]]
            yield Anomaly(REORDERED, f"{value!r} at {offset} is behind {later!r}")
        latest[writer] = max(turn, latest.get(writer, -1))


class Watermark:
    """A number that only rises, such as a committed offset or a log start offset.

    One client raises it, step by step, and waits for each answer.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tried = self.acked = -1

    def trying(self, value: int) -> None:
        """Notes that the client asks the broker to keep this value."""
        self.tried = max(self.tried, value)

    def ack(self, value: int) -> None:
        """Notes that the broker has promised to keep this value."""
        self.acked = max(self.acked, value)

    def check(self, found: int, promised: int | None = None) -> list[Anomaly]:
        """Compares the value found with the promised ones. ``promised``: the acked value at the time of asking, if
        clients have continued.
        """
        acked = self.acked if promised is None else promised
        if found < acked:
            return [Anomaly(WENT_BACK, f"{self.name} is {found} after {acked} was acked")]
        if found > self.tried:
            return [Anomaly(PHANTOM, f"{self.name} is {found}, nobody went beyond {self.tried}")]
        return []


class TopicHistory:
    """The topics that were created and deleted.

    A change that was not answered may have happened completely or not at all.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.partitions: dict[str, int] = {}
        self.existing: set[str] = set()
        self.gone: set[str] = set()

    def creating(self, name: str, partitions: int) -> None:
        with self._lock:
            self.partitions[name] = partitions

    def created(self, name: str) -> None:
        with self._lock:
            self.existing.add(name)

    def deleting(self, name: str) -> None:
        with self._lock:
            self.existing.discard(name)

    def deleted(self, name: str) -> None:
        with self._lock:
            self.gone.add(name)

    def check(self, found: dict[str, int]) -> list[Anomaly]:
        """Compares the history with the broker. ``found``: the number of partitions of each topic there."""
        with self._lock:
            lost = sorted(self.existing - found.keys())
            returned = sorted(self.gone & found.keys())
            invented = sorted(found.keys() - self.partitions.keys())
            wrong = [(name, self.partitions.get(name, count), count) for name, count in found.items()]
        return [
            *(Anomaly(LOST, f"topic {name}") for name in lost),
            *(Anomaly(WENT_BACK, f"topic {name} is back") for name in returned),
            *(Anomaly(PHANTOM, f"topic {name}") for name in invented),
            *(
                Anomaly(HOLE, f"topic {name} has {count} partitions, not {made}")
                for name, made, count in wrong
                if made != count
            ),
        ]
