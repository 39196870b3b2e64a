"""Runs many sequences against two running brokers, repeats and shrinks what differs, and counts."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from conformance.differential.accepted import Accepted, unexplained
from conformance.differential.broker_side import OWN_PARTITIONS, SHARED, World
from conformance.differential.compare import Difference
from conformance.differential.duel import CALM, QUICK, Duel, Found, Patience
from conformance.differential.generate import KINDS, sequence
from conformance.differential.shrink import shrink
from conformance.differential.step import Step, show
from harness.protocol import error_codes, kinds
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker

#: For both brokers: nobody waits for more members or for an assignment, no session ends, and internal topics have few
#: partitions, which load fast.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.max.session.timeout.ms": "600000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
#: How often a difference must be seen in slow motion: each time under other names, whose hashes decide other things.
LOOKS = 3
_run = itertools.count(1)
Draw = Callable[[int, int, Sequence[str]], tuple[str, list[Step]]]


@dataclass
class Finding:
    """A difference that shows every time, with the shortest sequence that shows it."""

    seed: int
    number: int
    kind: str
    found: Found
    steps: list[Step]

    def __str__(self) -> str:
        told = "\n".join(f"  {one}" for one in self.found.differences)
        head = f"sequence {self.seed}:{self.number} ({self.kind}), step {self.found.place}:"
        return f"{head}\n{told}\n{show(self.steps)}\n"


@dataclass
class Tally:
    """The counts of a campaign, which its report shows."""

    sequences: int = 0
    requests: int = 0
    seconds: float = 0.0
    #: Seen once and not again in slow motion.
    fleeting: list[str] = field(default_factory=list)
    #: What the reference answered to each verb, by error code.
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        rows = ", ".join(f"row {number}: {count}" for number, count in sorted(self.accepted.items()))
        return (
            f"{self.sequences} sequences, {self.requests} requests a side, {self.seconds:.0f} s; "
            f"{len(self.findings)} differ, {len(self.fleeting)} fleeting; accepted: {rows or 'none'}"
        )

    def coverage(self) -> str:
        """Returns a line per verb: its error codes and the count of each."""
        lines: dict[str, list[str]] = {}
        for (verb, code), times in sorted(self.answers.items()):
            lines.setdefault(verb, []).append(f"{code}: {times}")
        return "\n".join(f"{verb}  {'  '.join(codes)}" for verb, codes in lines.items())


class Side:
    """A running, warmed broker: its internal topics are loaded and the shared topics exist."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.topic_ids: dict[str, uuid.UUID] = {}
        with Wire(broker.address, 60) as wire:
            for name, partitions in SHARED.items():
                wire.create_topic(f"shared-{name}", partitions)
                self.topic_ids[f"shared-{name}"] = wire.topic_id(f"shared-{name}")
            for place in range(20):
                _until_loaded(wire, f"warm-{place}")

    def connect(self, actor: int) -> Wire:
        """Connects an actor of a sequence."""
        return Wire(self.broker.address, 30)

    def world(self, prefix: str, *, own_topic: bool) -> World:
        world = World(self.connect, prefix, self.topic_ids)
        if own_topic:
            with Wire(self.broker.address, 60) as wire:
                wire.create_topic(prefix + "own", OWN_PARTITIONS)
                world.topic_ids[prefix + "own"] = wire.topic_id(prefix + "own")
        return world

    def clean_up(self, world: World) -> None:
        world.close()
        if world.prefix + "own" in world.topic_ids:
            with Wire(self.broker.address, 60) as wire:
                wire.ask("DeleteTopics", 5, topic_names=[world.prefix + "own"], timeout_ms=30_000)


def _until_loaded(wire: Wire, name: str) -> None:
    """Asks both coordinators until the partitions of a name are loaded."""
    group = {"groups": [name], "include_authorized_operations": False}
    producer = {"transactional_id": name, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    _until(lambda: wire.ask("FindCoordinator", 3, key=name, key_type=kinds.GROUP).error_code)
    _until(lambda: wire.ask("FindCoordinator", 3, key=name, key_type=kinds.TRANSACTION).error_code)
    _until(lambda: wire.ask("DescribeGroups", 5, **group).groups[0].error_code)
    _until(lambda: wire.ask("InitProducerId", 4, **producer).error_code)


def _until(ask: Callable[[], int]) -> None:
    deadline = time.monotonic() + 120
    while (code := ask()) in error_codes.COORDINATOR_NOT_READY:
        assert time.monotonic() < deadline, f"a coordinator does not load: {code}"
        time.sleep(0.05)


class Campaign:
    """Compares brokers. ``left`` is ours (or a second Kafka), ``right`` the reference; ``table`` holds the accepted
    differences. ``draw`` returns the sequence with a number.
    """

    def __init__(self, left: Side, right: Side, table: Sequence[Accepted] = (), draw: Draw = sequence) -> None:
        self.sides = (left, right)
        self.table = list(table)
        self.draw = draw
        self.tally = Tally()
        self._lock = threading.Lock()

    def run(
        self, seed: int, numbers: Sequence[int], kinds: Sequence[str] = KINDS, *, workers: int = 3, most: int = 100
    ) -> Tally:
        """Runs the sequences of the numbers; stops early after ``most`` findings."""
        start = time.monotonic()

        def one(number: int) -> None:
            if len(self.tally.findings) < most:
                self._one(seed, number, kinds)

        with ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(one, numbers):
                pass
        self.tally.seconds = time.monotonic() - start
        return self.tally

    def _one(self, seed: int, number: int, kinds: Sequence[str]) -> None:
        kind, steps = self.draw(seed, number, kinds)
        found = self.duel(steps, QUICK)
        with self._lock:
            self.tally.sequences += 1
        if not found:
            return
        again = None
        for _ in range(LOOKS):
            again = self.duel(steps, CALM)
            if again is None:
                break
        if again is None:
            with self._lock:
                self.tally.fleeting.append(f"{seed}:{number} ({kind}) {found.step}: {found.differences[0]}")
            return
        wanted = signature(again)
        shorter = shrink(steps[: again.place + 1], lambda fewer: signature(self.duel(fewer, CALM)) == wanted)
        with self._lock:
            self.tally.findings.append(Finding(seed, number, kind, again, shorter))

    def duel(self, steps: Sequence[Step], patience: Patience) -> Found | None:
        """Runs a sequence once, under fresh names. It counts accepted differences, and returns None for them."""
        prefix = f"x{next(_run)}-"
        own = any(one.get("topic", "own") == "own" and one.verb in OWN_TOPIC for one in steps)
        worlds = [side.world(prefix, own_topic=own) for side in self.sides]
        try:
            left, right = worlds
            duel = Duel(left, right, patience)
            found = duel.run(steps)
            with self._lock:
                self.tally.requests += duel.requests // 2
                self.tally.answers += duel.answers
            return self._judged(found)
        finally:
            for side, world in zip(self.sides, worlds, strict=True):
                side.clean_up(world)

    def _judged(self, found: Found | None) -> Found | None:
        if found is None:
            return None
        left = unexplained(found.differences, self.table)
        with self._lock:
            for row in self.table:
                self.tally.accepted[row.number] += any(row.covers(one) for one in found.differences)
        return Found(found.place, found.step, tuple(left)) if left else None


#: Verbs that name the topic of a sequence's own.
OWN_TOPIC = {"produce", "add_partitions", "mark", "describe_producers", "read", "list_offsets"}


def signature(found: Found | None) -> tuple[str, tuple[str, ...]] | None:
    """Returns a value that identifies a difference."""
    return None if found is None else (found.step.verb, tuple(sorted({one.path for one in found.differences})))


def grouped(findings: Sequence[Finding]) -> Iterator[tuple[Difference, list[Finding]]]:
    """Yields the findings grouped by their first difference, the most frequent one first."""
    groups: dict[tuple[str, str, str, str], list[Finding]] = {}
    for one in findings:
        first = one.found.differences[0]
        groups.setdefault((first.api, first.path, first.left, first.right), []).append(one)
    for group in sorted(groups.values(), key=len, reverse=True):
        yield group[0].found.differences[0], sorted(group, key=lambda one: len(one.steps))
