"""Event sourcing: commands are decided into events, and the state that decides them lives in a compacted topic.

The commands are real: each flight that left New York asks for its aircraft (``flight_data.py``). It is refused where
the aircraft cannot be back yet from where it flew before, else the aircraft has departed; so each decision hangs on
those before it. The offsets of the commands, the events, and the new state of the aircraft are one transaction. A
worker that fails in the middle of one leaves nothing of it. The next worker reads the state from the topic and goes on.

    python examples/events.py [--months 12]

In the end the state in the topic is compared with the worker's memory, and with what plain Python makes of the data
set. It is compared again after compaction has left only the latest record of each aircraft.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from flight_data import MINUTES, Flight, flights
from pyclient import Admin, Consumer, NewTopic, Producer, RebalanceListener, Record, TopicPartition
from reading import read
from stage import broker, parser, picture, play, tell

PARTITIONS = 3
COMMANDS = NewTopic("aircraft-commands", PARTITIONS)
EVENTS = NewTopic("aircraft-events", PARTITIONS)
STATE = NewTopic(
    "aircraft-state",
    PARTITIONS,
    configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"},
)
"""As many partitions as the commands: an aircraft's state is in the partition of its commands."""
TRANSACTION_RECORDS = 2000
FAILS_IN = 5
PATIENCE_S = 90.0


class Command(msgspec.Struct):
    """A flight wants to leave."""

    at_ms: int
    dest: str
    miles: int
    air_time_min: int


class Aircraft(msgspec.Struct, frozen=True):
    """The state. back_ms: when it can be in New York again."""

    departures: int = 0
    miles: int = 0
    back_ms: int = 0


class Event(msgspec.Struct):
    """What a command has led to."""

    what: str
    at_ms: int
    dest: str


Fleet = dict[bytes, Aircraft]


class PowerCut(Exception):
    """What goes wrong."""


def decide(aircraft: Aircraft, command: Command) -> Event:
    """The event; nothing else is read."""
    is_away = command.at_ms < aircraft.back_ms
    return Event("refused" if is_away else "departed", command.at_ms, command.dest)


def evolve(aircraft: Aircraft, event: Event, command: Command) -> Aircraft:
    """The state after the event."""
    if event.what == "refused":
        return aircraft
    back_ms = command.at_ms + 2 * command.air_time_min * MINUTES
    return Aircraft(aircraft.departures + 1, aircraft.miles + command.miles, back_ms)


class Worker(RebalanceListener):
    """Decides the commands of the partitions that it is given; there may be as many workers as partitions.

    fleets: the state of their aircraft, by partition. outcomes: how often each event was committed. transactions:
    those committed. stored: records that were sent to the state's topic.
    """

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.fleets: dict[int, Fleet] = {}
        self.outcomes: Counter[str] = Counter()
        self.transactions = 0
        self.stored = 0

    def work(self, count: int, fails_in: int = 0) -> Fleet:
        """Until ``count`` commands are decided; the state then. Raises PowerCut in the transaction ``fails_in``."""
        with (
            Consumer(
                self.bootstrap,
                group_id="aircraft",
                topics=[COMMANDS.name],
                listener=self,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            ) as consumer,
            Producer(self.bootstrap, transactional_id=f"aircraft-{self.name}", compression_type="zstd") as producer,
        ):
            producer.init_transactions()  # aborts what a predecessor of this name left open, before the state is read
            while self.outcomes.total() < count:
                records = consumer.poll(timeout=1.0, max_records=TRANSACTION_RECORDS)
                with producer.transaction():
                    outcomes = self.handle(producer, records)
                    if fails_in and self.transactions + 1 == fails_in:
                        raise PowerCut
                    producer.send_offsets(consumer.positions(), consumer.group_metadata())
                self.outcomes += outcomes
                self.transactions += 1
            return {tail: aircraft for fleet in self.fleets.values() for tail, aircraft in fleet.items()}

    def handle(self, producer: Producer, records: Collection[Record]) -> Counter[str]:
        """Sends the events, and the state of each aircraft that has changed, once."""
        outcomes: Counter[str] = Counter()
        changed: Fleet = {}
        for record in records:
            command = msgspec.json.decode(record.value, type=Command)
            fleet = self.fleets[record.partition]
            before = fleet.get(record.key, Aircraft())
            event = decide(before, command)
            producer.send(EVENTS.name, msgspec.json.encode(event), record.key)
            fleet[record.key] = changed[record.key] = evolve(before, event, command)
            outcomes[event.what] += 1
        for tail, aircraft in changed.items():
            producer.send(STATE.name, msgspec.json.encode(aircraft), tail)
        self.stored += len(changed)
        return outcomes

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """The state of their aircraft is read before the first command is."""
        fleets = restore(self.bootstrap)
        for each in partitions:
            self.fleets[each.partition] = fleets[each.partition]

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Others decide from now on."""
        for each in partitions:
            del self.fleets[each.partition]


def restore(bootstrap: str) -> list[Fleet]:
    """The state as the topic has it, by partition: of each aircraft the last record."""
    fleets: list[Fleet] = [{} for _ in range(PARTITIONS)]
    for record in read(bootstrap, STATE.name):
        if record.value is None:  # a tombstone
            fleets[record.partition].pop(record.key, None)
        else:
            fleets[record.partition][record.key] = msgspec.json.decode(record.value, type=Aircraft)
    return fleets


def merged(fleets: list[Fleet]) -> Fleet:
    """All partitions in one."""
    return {tail: aircraft for fleet in fleets for tail, aircraft in fleet.items()}


def commands(departures: list[Flight]) -> Iterator[tuple[bytes, Command]]:
    """The commands of flights that arrived, and whose aircraft is known."""
    for flight in departures:
        if flight.tailnum is not None and flight.air_time is not None:
            yield flight.tailnum.encode(), Command(flight.departed_ms, flight.dest, flight.distance, flight.air_time)


def expected(departures: list[Flight]) -> Fleet:
    """The same without a broker."""
    fleet: Fleet = {}
    for tail, command in commands(departures):
        old = fleet.get(tail, Aircraft())
        if command.at_ms >= old.back_ms:
            back_ms = command.at_ms + command.air_time_min * 2 * MINUTES
            fleet[tail] = Aircraft(old.departures + 1, old.miles + command.miles, back_ms)
    return fleet


def size(bootstrap: str) -> tuple[int, int]:
    """The size of the state's topic: records that are there, bytes on disk."""
    partitions = [TopicPartition(STATE.name, number) for number in range(PARTITIONS)]
    with Admin(bootstrap) as admin:
        brokers = admin.describe_log_dirs(partitions=partitions).values()
    stored = sum(replica.size for dirs in brokers for each in dirs.values() for replica in each.replicas.values())
    return sum(1 for _ in read(bootstrap, STATE.name)), stored


def compact(bootstrap: str, keys: int) -> tuple[int, int]:
    """The topic's size when compaction has left fewer than two records a key. Raises TimeoutError.

    The segment that is written to is never compacted: once ``segment.ms`` is over, the next record makes a new one.
    """
    deadline = time.monotonic() + PATIENCE_S
    time.sleep(1.0)
    with Producer(bootstrap) as producer:
        for number in range(PARTITIONS):
            producer.send(STATE.name, None, b"no aircraft", partition=number)
    while (now := size(bootstrap))[0] >= 2 * keys:
        if time.monotonic() > deadline:
            raise TimeoutError(f"compaction left {now[0]:,} records of {keys:,} keys after {PATIENCE_S:.0f} s")
        time.sleep(0.2)
    return now


def produce(bootstrap: str, departures: list[Flight]) -> int:
    """Sends the commands; how many."""
    count = 0
    with Producer(bootstrap, compression_type="zstd", linger_ms=20) as producer:
        for tail, command in commands(departures):
            producer.send(COMMANDS.name, msgspec.json.encode(command), tail)
            count += 1
    return count


def work(bootstrap: str, count: int) -> tuple[Worker, Worker, Fleet]:
    """A worker that fails, the one that goes on, and what that one has in memory in the end."""
    first, second = Worker(bootstrap, "1"), Worker(bootstrap, "1")
    try:
        return first, second, first.work(count, FAILS_IN)
    except PowerCut:
        return first, second, second.work(count - first.outcomes.total())


def draw(file: Path, fleet: Fleet, records: dict[str, int]) -> None:
    """How often the aircraft have departed, and what compaction did to the topic."""
    with picture(file, "Aircraft, their state in a compacted topic") as figure:
        many, log = figure.subplots(1, 2, width_ratios=(2, 1))
        many.hist([aircraft.departures for aircraft in fleet.values()], bins=40)
        many.set(xlabel="departures", ylabel="aircraft")
        log.bar_label(log.bar(list(records), list(records.values())), fmt="{:,.0f}")
        log.set(ylabel="records in the topic")


def main() -> bool:
    """Whether the state is the same in memory, in the topic before and after compaction, and as expected."""
    arguments = parser(__doc__ or "", "events")
    arguments.add_argument("--months", type=int, default=12, help="of the data set [%(default)s]")
    options = arguments.parse_args()
    departures = flights(options.months)
    with broker(options.bootstrap, [COMMANDS, EVENTS, STATE]) as bootstrap:
        count = produce(bootstrap, departures)
        first, second, fleet = work(bootstrap, count)
        restored = merged(restore(bootstrap))
        before = size(bootstrap)
        after = compact(bootstrap, len(restored))
        again = merged(restore(bootstrap))
        events = sum(1 for _ in read(bootstrap, EVENTS.name))
    outcomes = first.outcomes + second.outcomes
    tell("commands", f"{count:,}")
    tell("events", f"{events:,}: {outcomes['departed']:,} departed, {outcomes['refused']:,} refused")
    tell("workers", f"{first.transactions} transactions and a power cut, then {second.transactions} by the next one")
    stored = first.stored + second.stored
    tell("state", f"{len(restored):,} aircraft, {stored:,} times stored")
    tell("compaction", f"{before[0]:,} records, {before[1]:,} bytes → {after[0]:,} records, {after[1]:,} bytes")
    draw(options.output / "aircraft.png", again, {"stored": stored, "compacted": after[0]})
    is_kept = fleet == restored == again == expected(departures)
    return is_kept and events == count == outcomes.total()


if __name__ == "__main__":
    play(main)
