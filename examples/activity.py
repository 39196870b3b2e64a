"""Activity tracking: which user was active when, and for how long? The events are real: each of 4,037 aircraft is a
user, each of its departures from New York an action (``flight_data.py``). A session of an aircraft are departures less
than twelve hours apart. Three members of a group work them out together; one leaves on the way, and the others take
over. In the end the sessions are compared with those that are computed from the data set directly.

    python examples/activity.py [--months 12]
"""

from __future__ import annotations

import csv
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from flight_data import MINUTES, Flight, flights
from pyclient import Consumer, NewTopic, Producer, RebalanceListener, TopicPartition
from stage import broker, parser, picture, play, tell

TOPIC = NewTopic("departures", 6, configs={"retention.ms": "-1"})
"""Records have the time of their departure, which is long ago: nothing of it is to expire."""
MEMBERS = 3
GAP_MS = 12 * 60 * MINUTES
PATIENCE_S = 60.0


class Session(NamedTuple):
    """The session of a user; times in milliseconds since 1970."""

    user: bytes
    first_ms: int
    last_ms: int
    actions: int


class Sessions:
    """The sessions of one partition; a user's actions come in order, since they have one key."""

    def __init__(self) -> None:
        self.actions = 0
        self.closed: list[Session] = []
        self.open: dict[bytes, Session] = {}

    def add(self, user: bytes, at_ms: int) -> None:
        """An action."""
        self.actions += 1
        last = self.open.get(user)
        if last is not None and at_ms - last.last_ms < GAP_MS:
            self.open[user] = Session(user, last.first_ms, at_ms, last.actions + 1)
        else:
            self.open[user] = Session(user, at_ms, at_ms, 1)
            if last is not None:
                self.closed.append(last)


class Member(threading.Thread, RebalanceListener):
    """A consumer of the group.

    It commits nothing: the log is its memory. A worker that is assigned a partition reads it from the beginning, and
    finds the same sessions as the partition's last owner.
    """

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.stopped = threading.Event()
        self.read = 0
        self.partitions: dict[TopicPartition, Sessions] = {}

    def run(self) -> None:
        """Until ``stopped``, then leaves the group."""
        with Consumer(
            self.bootstrap,
            group_id="sessions",
            topics=[TOPIC.name],
            listener=self,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            while not self.stopped.is_set():
                for record in consumer.poll(timeout=0.1, max_records=5000):
                    self.partitions[TopicPartition(record.topic, record.partition)].add(record.key, record.timestamp)
                    self.read += 1

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Each begins without any session."""
        self.partitions |= {each: Sessions() for each in partitions}

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Another member works their sessions out again."""
        for each in partitions:
            del self.partitions[each]


def produce(bootstrap: str, departures: Iterable[Flight]) -> int:
    """Sends them; how many."""
    count = 0
    with Producer(bootstrap, compression_type="zstd", linger_ms=20) as producer:
        for flight in departures:
            key = (flight.tailnum or "").encode()
            producer.send(TOPIC.name, msgspec.json.encode(flight), key, timestamp=flight.departed_ms)
            count += 1
    return count


def track(bootstrap: str, departures: list[Flight]) -> tuple[list[Session], list[int]]:
    """All sessions, and how many records each member read. Raises TimeoutError."""
    members = [Member(bootstrap) for _ in range(MEMBERS)]
    for member in members:
        member.start()
    half = len(departures) // 2
    produce(bootstrap, departures[:half])
    wait_until_read(members, half)
    members[0].stopped.set()
    produce(bootstrap, departures[half:])
    members[0].join(PATIENCE_S)
    wait_until_read(members[1:], len(departures))
    for member in members:
        member.stopped.set()
    found = [sessions for member in members[1:] for sessions in list(member.partitions.values())]
    return [each for one in found for each in (*one.closed, *one.open.values())], [member.read for member in members]


def wait_until_read(members: list[Member], count: int) -> None:
    """Until their partitions together hold so many actions. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    while sum(sessions.actions for member in members for sessions in list(member.partitions.values())) != count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{[member.read for member in members]} of {count:,} actions were read")
        time.sleep(0.02)


def expected(departures: list[Flight]) -> list[Session]:
    """The same without a broker: a user's times side by side, cut where the next is too far."""
    found: list[Session] = []
    times = sorted(((flight.tailnum or "").encode(), flight.departed_ms) for flight in departures)
    for user, group in groupby(times, lambda each: each[0]):
        of_user = [at_ms for _, at_ms in group]
        cuts = [place for place, (a, b) in enumerate(pairwise(of_user), 1) if b - a >= GAP_MS]
        for start, end in pairwise([0, *cuts, len(of_user)]):
            found.append(Session(user, of_user[start], of_user[end - 1], end - start))
    return found


def write(file: Path, sessions: Iterable[Session]) -> None:
    """As CSV."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as opened:
        table = csv.writer(opened)
        table.writerow(Session._fields)
        table.writerows((user.decode(), *rest) for user, *rest in sessions)
    tell("table", str(file))


def main() -> bool:
    """Whether the sessions are those that were expected."""
    arguments = parser(__doc__ or "", "activity")
    arguments.add_argument("--months", type=int, default=12, help="of the data set [%(default)s]")
    options = arguments.parse_args()
    departures = [flight for flight in flights(options.months) if flight.tailnum and flight.delay is not None]
    with broker(options.bootstrap, [TOPIC]) as bootstrap:
        sessions, shares = track(bootstrap, departures)
    users = len({session.user for session in sessions})
    longest = max(sessions, key=lambda session: session.actions)
    tell("actions", f"{len(departures):,} departures of {users:,} aircraft")
    tell("members", f"read {', '.join(f'{share:,}' for share in shares)}; the first one left on the way")
    tell("sessions", f"{len(sessions):,}; the longest: {longest.user.decode()}, {longest.actions} departures")
    write(options.output / "sessions.csv", sorted(sessions))
    with picture(options.output / "sessions.png", "Departures in a session of an aircraft") as figure:
        axes = figure.subplots()
        lengths = Counter(session.actions for session in sessions)
        axes.bar(list(lengths), list(lengths.values()))
        axes.set(yscale="log", xlabel="departures", ylabel="sessions")
    return sorted(sessions) == sorted(expected(departures))


if __name__ == "__main__":
    play(main)
