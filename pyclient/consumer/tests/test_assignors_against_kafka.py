"""The assignors against Kafka's own, in one JVM (AssignorWitness.java): the same partitions for each member.

Histories of groups, from a seed: members join, leave, read other topics; topics come and grow; a member names an old
generation, or claims another member's partitions. Each generation starts from the last assignment.
"""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import peers
from pyclient.consumer.assignors import ASSIGNORS
from pyclient.consumer.assignors.spec import Assignment, Member
from pyclient.consumer.assignors.sticky import encode
from pyclient.topic_partition import TopicPartition

WITNESS = Path(__file__).parent / "AssignorWitness.java"
SEED = int(os.environ.get("PYBROKER_TEST_SEED", "429"))
TOPICS = [f"topic-{number}" for number in range(7)]
RACKS = ("east", "west", "north")
Places = dict[TopicPartition, frozenset[str]]
Told = dict[str, tuple[tuple[TopicPartition, ...], int]]


def asked(name: str, counts: dict[str, int], members: list[Member], racks: Places) -> str:
    """Returns a line for the witness."""
    places = {
        topic: [sorted(racks[TopicPartition(topic, number)]) for number in range(count)]
        for topic, count in counts.items()
    }
    rows = [
        {
            "id": member.id,
            "topics": member.topics,
            "instance": member.instance_id,
            "owned": member.owned,
            "generation": member.generation,
            "userData": base64.b64encode(member.user_data).decode(),
            "rack": member.rack,
        }
        for member in members
    ]
    return json.dumps({"assignor": name, "racks": places, "members": rows})


class History:
    """A group over many generations. ``members`` is what its leader sees; ``passed`` makes the next change."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.is_alike = source.random() < 0.5
        self.counts = {topic: source.randint(1, 9) for topic in source.sample(TOPICS, source.randint(1, 4))}
        self.topics: dict[str, tuple[str, ...]] = {}
        self.instances: dict[str, str | None] = {}
        self.racks: dict[str, str | None] = {}
        self.has_racks = source.random() < 0.6
        self._places: Places = {}
        self.told: Told = {}
        self.generation = 0
        for _ in range(source.randint(1, 8)):
            self._join()

    def _choice(self) -> tuple[str, ...]:
        names = sorted(self.counts)
        if self.is_alike:
            return tuple(names)
        return tuple(sorted(self.source.sample(names, self.source.randint(1, len(names)))))

    def _join(self) -> None:
        name = f"client-{self.source.randrange(1000)}-{self.source.getrandbits(64):016x}"
        self.topics[name] = self._choice()
        self.instances[name] = f"i{self.source.randrange(10**6)}" if self.source.random() < 0.2 else None
        self.racks[name] = self.source.choice((*RACKS, "", None)) if self.has_racks else None

    def places(self) -> Places:
        """Returns the racks of all partitions. A replica may have moved to another rack."""
        for topic, count in self.counts.items():
            for number in range(count):
                tp = TopicPartition(topic, number)
                if self.has_racks and (tp not in self._places or self.source.random() < 0.02):
                    self._places[tp] = frozenset(self.source.sample(RACKS, self.source.choice((0, 1, 1, 2, 2, 3))))
                self._places.setdefault(tp, frozenset())
        return self._places

    def members(self, name: str) -> list[Member]:
        """Returns the members in the order in which they joined."""
        found = []
        for each, topics in self.topics.items():
            owned, generation = self.told.get(each, ((), -1))
            data = encode(owned, generation) if name == "sticky" and each in self.told else b""
            found.append(Member(each, topics, self.instances[each], owned, generation, data, self.racks[each]))
        return found

    def passed(self, assigned: Assignment) -> None:
        """Notes the assignment, then changes the group or the topics."""
        self.generation += 1
        for name, partitions in assigned.items():
            if self.source.random() < 0.93 or name not in self.told:  # else it missed the rebalance
                self.told[name] = tuple(partitions), self.generation
        for _ in range(self.source.randint(0, 3)):
            self.source.choice((self._join, self._leave, self._grow, self._read_others, self._claim))()

    def _leave(self) -> None:
        if len(self.topics) > 1:
            gone = self.source.choice(sorted(self.topics))
            del self.topics[gone]
            self.told.pop(gone, None)

    def _grow(self) -> None:
        topic = self.source.choice(TOPICS)
        self.counts[topic] = self.counts.get(topic, 0) + self.source.randint(1, 4)
        if self.is_alike:
            self.topics = dict.fromkeys(self.topics, self._choice())

    def _read_others(self) -> None:
        if not self.is_alike:
            self.topics[self.source.choice(sorted(self.topics))] = self._choice()

    def _claim(self) -> None:
        if not self.told:
            return
        one, other = (self.source.choice(sorted(self.told)) for _ in range(2))
        partitions, generation = self.told[one]
        stolen = self.told[other][0][:2]
        self.told[one] = tuple(dict.fromkeys(partitions + stolen)), generation


class Witness:
    """Asks Kafka's assignors, which run in a JVM."""

    def __init__(self) -> None:
        command = [*peers.jvm("256m"), "-ea", str(WITNESS)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def witness() -> Iterator[Witness]:
    one = Witness()
    yield one
    one.close()


def is_owed(answer: Any, members: list[Member]) -> bool:
    """Returns whether Kafka has no valid answer: none at all, or one that assigns partitions to members that do not
    read them.

    Kafka does so, at least in between, if a member had the partitions in an earlier generation and has left their
    topic.
    """
    last = max(member.generation for member in members)
    old = (member for member in members if member.generation < last)
    return "error" in answer or any(tp.topic not in member.topics for member in old for tp in member.owned)


def same(witness: Witness, name: str, histories: int, generations: int) -> int:
    """Compares the answers. Returns how many answers of Kafka are not valid."""
    owed = 0
    for number in range(histories):
        history = History(random.Random(f"{SEED}-{name}-{number}"))
        for generation in range(generations):
            members = history.members(name)
            read = {topic for member in members for topic in member.topics}
            counts = {topic: count for topic, count in history.counts.items() if topic in read}
            racks = history.places()
            answer = witness.ask(asked(name, counts, members, racks))
            assigned = ASSIGNORS[name].assign(counts, members, racks)
            ours = {each: sorted(map(list, partitions)) for each, partitions in assigned.items()}
            if ours != {each: sorted(rows) for each, rows in answer.items()}:
                assert is_owed(answer, members), f"seed {SEED}, history {number}, generation {generation}"
                owed += 1
            history.passed(assigned)
    return owed


@pytest.mark.nightly
@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_every_member_gets_the_partitions_that_kafka_assigns(witness: Witness, name: str) -> None:
    assert same(witness, name, histories=100, generations=8) < 100 * 8 // 50


@pytest.mark.campaign
@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_every_member_gets_the_partitions_that_kafka_assigns_in_long_histories(witness: Witness, name: str) -> None:
    assert same(witness, name, histories=3_000, generations=20) < 3_000 * 20 // 50
