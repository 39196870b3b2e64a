"""One sequence against two brokers, in lockstep.

Every step goes to both sides; then the duel waits. If only one side has replied, the duel waits long for the other. If
neither has, the request waits for something (another member's join), and the duel goes on. Its replies are compared
when they come. So the comparison never depends on which side is faster, only on whether a side answers at all.
``Patience`` says how long that may take: a difference counts if it is still there in slow motion.

CONCURRENT_TRANSACTIONS means "the markers are still on their way". The request is sent again until the answer is
another one. A step is over when no transaction of the sequence is in a Prepare state.
"""

from __future__ import annotations

import select
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.differential.broker_side import HARNESS, World
from conformance.differential.compare import Difference, differences
from conformance.differential.normal import reply_tree
from conformance.differential.requests import VERBS, acls, request_fields
from conformance.differential.step import Step
from harness.protocol import error_codes
from harness.protocol.wire_client import ConnectionClosed, Wire

#: A classic member that a group does not know joins it. After that Kafka's memory has lost an empty consumer group,
#: though its offsets remain, and after a restart the group is there again. What follows is not compared.
#: INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID.
REFUSED_JOIN = (23, 25)
PREPARING = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
#: What a side that closed the connection, or that never answered, is said to have answered.
CLOSED, SILENT = "<closed>", "<no answer>"


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits in seconds. If neither side answers for ``waiting_s``, the request waits. The slower side has ``other_s``
    to answer. ``pause_s`` is the pause between two steps."""

    waiting_s: float
    late_s: float
    other_s: float
    pause_s: float = 0.0


QUICK = Patience(0.06, 0.03, 2)
CALM = Patience(0.6, 0.4, 30, pause_s=0.1)


@dataclass(slots=True)
class Asked:
    """A request, as one side gets it."""

    world: World
    step: Step
    wire: Wire
    reply: Any = None
    answered: bool = False

    def receive(self) -> None:
        """Takes the reply that has arrived. A closed connection is an answer, too."""
        try:
            self.reply = self.wire.reply(VERBS[self.step.verb].api, self.step.version)
            self.world.give_back(self.step.actor, self.wire)
        except ConnectionClosed:
            self.reply = CLOSED
        self.answered = True

    def tree(self) -> Any:
        api = VERBS[self.step.verb].api
        return self.reply if isinstance(self.reply, str) else reply_tree(api, self.reply, self.world)

    def learn(self) -> None:
        if not isinstance(self.reply, str):
            actor = self.world.actor(self.step.actor)
            VERBS[self.step.verb].learn(self.world, actor, self.step, self.reply)


@dataclass(frozen=True, slots=True)
class Found:
    """The differences between the answers to one step. ``place`` is the step's number."""

    place: int
    step: Step
    differences: tuple[Difference, ...]


class Duel:
    """Plays a sequence on two brokers. ``left`` and ``right`` are fresh worlds of the same prefix."""

    def __init__(self, left: World, right: World, patience: Patience = QUICK) -> None:
        self.sides = (left, right)
        self.patience = patience
        self._waiting: dict[int, tuple[Asked, Asked]] = {}
        self.requests = 0
        self._mixed = self._over = False
        self.trace: list[str] = []
        #: How often which verb was answered with which error code (the highest in the reply).
        self.answers: Counter[tuple[str, int]] = Counter()

    def run(self, steps: Sequence[Step]) -> Found | None:
        """Returns the first step whose answers differ, or None if the sides agree to the end."""
        self._mixed = any(one.verb == "beat" for one in steps)
        for place, one in enumerate(steps):
            if self._over:
                return None
            self._waiting[place] = (self._ask(self.sides[0], one), self._ask(self.sides[1], one))
            found = self._collect(place) or self._shown(place, one)
            if found is not None:
                return found
            self._settle()
            time.sleep(self.patience.pause_s)
        return None

    def _ask(self, world: World, one: Step) -> Asked:
        verb = VERBS[one.verb]
        fields = request_fields(world, one)
        wire = world.take(one.actor)
        self.requests += 1
        wire.post(verb.api, one.version, **fields)
        return Asked(world, one, wire)

    def _collect(self, current: int) -> Found | None:
        """Waits for what comes now, and compares it in the order of the steps."""
        while self._waiting:
            if not self._receive(self._timeout(current)):
                break
        for place, pair in sorted(self._waiting.items()):
            if not any(asked.answered for asked in pair):
                continue
            del self._waiting[place]
            found = self._compare(place, *pair)
            if found:
                return found
        return None

    def _timeout(self, current: int) -> float:
        pairs = self._waiting.values()
        if any(left.answered != right.answered for left, right in pairs):
            return self.patience.other_s
        if not any(asked.answered for asked in self._waiting[current]):
            return self.patience.waiting_s
        return self.patience.late_s

    def _receive(self, timeout_s: float) -> bool:
        """Takes all replies that arrive in time. Returns False if none does."""
        silent = {
            asked.wire.socket: asked for pair in self._waiting.values() for asked in pair if not asked.answered
        }
        ready, _, _ = select.select(list(silent), [], [], timeout_s) if silent else ([], [], [])
        for socket in ready:
            self._take(silent[socket])
        return bool(ready)

    def _take(self, asked: Asked) -> None:
        asked.receive()
        for _ in range(200):
            if isinstance(asked.reply, str) or not _concurrent(asked.reply.to_dict(json=False)):
                return
            time.sleep(0.01)
            again = self._ask(asked.world, asked.step)
            again.receive()
            asked.reply = again.reply

    def _compare(self, place: int, left: Asked, right: Asked) -> Found | None:
        for asked in (left, right):
            if asked.answered:
                asked.learn()
            else:
                asked.reply = SILENT
        refused = getattr(right.reply, "error_code", 0) in REFUSED_JOIN
        self._over |= self._mixed and left.step.verb == "join" and refused
        api, version = VERBS[left.step.verb].api, left.step.version
        trees = left.tree(), right.tree()
        self.trace.append(f"{place}: {left.step}\n    {trees[0]}")
        self.answers[left.step.verb, max(_codes(trees[1]), default=0)] += 1
        rows = differences(api, version, *trees)
        return Found(place, left.step, tuple(rows)) if rows else None

    def _shown(self, place: int, one: Step) -> Found | None:
        """Waits after a change of ACLs until both sides show the same. A real Kafka shows a change a moment later."""
        if one.verb not in acls.CHANGES:
            return None
        deadline = time.monotonic() + self.patience.other_s
        while True:
            api, version = acls.SHOW.api, acls.SHOW.versions[1]
            trees = [reply_tree(api, acls.shown(world), world) for world in self.sides]
            rows = differences(api, version, *trees)
            if not rows or time.monotonic() > deadline:
                return Found(place, one, tuple(rows)) if rows else None
            time.sleep(0.01)

    def _settle(self) -> None:
        """Returns when no transaction of the sequence waits for markers, or after a limit."""
        for world in self.sides:
            ids = sorted(world.transactional_ids)
            if not ids:
                continue
            wire = world.take(HARNESS)
            for _ in range(500):
                rows = wire.ask("DescribeTransactions", 0, transactional_ids=ids).transaction_states
                if not any(row.transaction_state in PREPARING for row in rows):
                    break
                time.sleep(0.01)
            world.give_back(HARNESS, wire)


def _concurrent(value: Any) -> bool:
    """Returns whether some error code in a reply is CONCURRENT_TRANSACTIONS."""
    return error_codes.CONCURRENT_TRANSACTIONS in _codes(value)


def _codes(value: Any) -> Iterator[int]:
    """Returns all error codes of a reply's tree."""
    if isinstance(value, dict):
        if isinstance(code := value.get("error_code"), int):
            yield code
        for inner in value.values():
            yield from _codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _codes(inner)
