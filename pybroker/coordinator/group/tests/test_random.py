"""Random valid and invalid requests, failing writes and pauses. Invariants are checked after each step."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from cy.batch import scan
from pybroker.coordinator import loading
from pybroker.coordinator.batching import builder
from pybroker.coordinator.group.offset_store import OffsetStore
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.group.shard import GroupShard
from pybroker.coordinator.group.state import COMPLETING, EMPTY, PREPARING, STABLE
from pybroker.coordinator.group.tests.driver import Driver, Held, Marker, Ticket, subscription
from pybroker.coordinator.shard import Producer
from pybroker.coordinator.skipping import Skipped
from pybroker.log.producers.marker import EndTxnMarker, encode
from pyclient.protocol import JoinGroup, errors

STEPS = 120
PROTOCOLS: list[dict[str, bytes]] = [
    {"range": subscription("t")},
    {"range": subscription("t"), "sticky": subscription("t", "u")},
    {"sticky": b"not a subscription"},
]
SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=50,
    max_size=4,
    offsets_retention_ms=200_000,
    offsets_check_interval_ms=30_000,
)


class Crowd:
    """Clients that send random requests."""

    def __init__(
        self, seed: int, refusals: float = 0.1, settings: GroupSettings = SETTINGS
    ) -> None:
        self.random = random.Random(seed)
        self.refusals = refusals
        self.driver = Driver(settings)
        self.members: dict[str, int] = {}
        """The ids of members, each with the generation of its last response."""
        self.tickets: list[Ticket] = []
        self.joins: list[Ticket] = []
        self.generation = 0

    def step(self) -> None:
        pick = self.random
        driver = self.driver
        driver.refuse = errors.NotEnoughReplicas if pick.random() < self.refusals else None
        before = self.group_generation()
        kind = pick.choices(
            [
                *("join", "sync", "heartbeat", "leave", "commit"),
                *("time", "delete", "offsets", "hold", "end", "forget"),
            ],
            [30, 30, 10, 4, 10, 12, 1, 2, 6, 3, 1],
        )[0]
        ticket = getattr(self, f"do_{kind}")()
        if ticket is not None:
            self.tickets.append(ticket)
        self.learn()
        assert before is None or self.group_generation() is None or (self.group_generation() >= before)

    def group_generation(self) -> Any:
        group = self.driver.shard.groups.get("g")
        return None if group is None else group.generation

    def any_id(self) -> str:
        ids = list(self.members)
        if not ids or self.random.random() < 0.05:
            return "nobody"
        return self.random.choice(ids[-5:])

    def learn(self) -> None:
        """Clients read their responses."""
        for ticket in [each for each in self.joins if not each.waits]:
            self.joins.remove(ticket)
            answer = ticket.answers[0]
            if getattr(answer, "error_code", -1) in (0, errors.MemberIdRequired.code):
                self.members[answer.member_id] = answer.generation_id

    def do_join(self) -> Ticket:
        pick = self.random
        known = pick.random() < 0.7 and self.members
        ticket = self.driver.join(
            self.any_id() if known else "",
            protocols=pick.choices(PROTOCOLS, [8, 4, 1])[0],
            instance=pick.choice([None, None, "i1", "i2"]),
            version=pick.choice([0, 3, 5, 9]),
            rebalance_ms=pick.choice([0, 500, 20_000]),
        )
        self.joins.append(ticket)
        return ticket

    def do_sync(self) -> Ticket:
        id = self.any_id()
        brought = {each: each.encode() for each in self.members}
        leads = self.random.random() < 0.9
        return self.driver.sync(id, self.told(id), brought if leads else None)

    def told(self, id: str) -> int:
        return self.members.get(id, 0) + self.random.choices([0, 1, -1], [20, 1, 1])[0]

    def do_heartbeat(self) -> Ticket:
        id = self.any_id()
        return self.driver.heartbeat(id, self.told(id))

    def do_leave(self) -> Ticket:
        return self.driver.leave((self.any_id(), None), ("", self.random.choice(["i1", "i3"])))

    def do_commit(self) -> Ticket:
        id = self.any_id()
        offsets = {(self.random.choice("tuv"), self.random.randrange(3)): self.random.randrange(99)}
        if self.random.random() < 0.3:
            return self.driver.commit(offsets, group=self.random.choice(["g", "simple"]))
        return self.driver.commit(offsets, id, self.told(id))

    def do_hold(self) -> Ticket:
        id = self.any_id()
        offsets = {(self.random.choice("tuv"), self.random.randrange(3)): self.random.randrange(99)}
        member = () if self.random.random() < 0.3 else (id, self.told(id))
        group = self.random.choice(["g", "g", "simple"])
        return self.driver.commit_in_transaction(offsets, self.producer(), *member, group=group)

    def producer(self) -> Producer:
        return Producer(self.random.randrange(3), 0)

    def do_end(self) -> None:
        self.driver.end(self.producer(), committed=self.random.random() < 0.7)

    def do_forget(self) -> None:
        shard = self.driver.shard
        self.driver.perform(lambda result: shard.forget_topics({"v": bytes(16)}, result))

    def do_time(self) -> None:
        self.driver.pass_ms(self.random.choice([0, 10, 100, 5_000, 40_000]))

    def do_delete(self) -> Ticket:
        return self.driver.delete(self.random.choice(["g", "simple"]))

    def do_offsets(self) -> Ticket:
        return self.driver.delete_offsets("t", "u", group=self.random.choice(["g", "simple"]))


def check_group(driver: Driver) -> None:
    """Checks the invariants that hold between any two events."""
    group = driver.shard.groups.get("g")
    if group is None:
        return
    members = list(group.members)
    waiting = [member for member in members if member.join_token is not None]
    assert group.members.joining == len(waiting)
    assert (group.state is EMPTY) == (not members) or group.state is PREPARING
    assert (group.members.leader_id in {member.id for member in members}) == bool(members)
    assert group.unsynced <= {member.id for member in members} or group.state in (PREPARING, EMPTY)
    if group.state in (COMPLETING, STABLE):
        assert not waiting
        assert all(group.protocol in dict(member.protocols) for member in members)
    if group.state is not COMPLETING:
        assert all(member.sync_token is None for member in members)
    for member in members:
        for token in (member.join_token, member.sync_token):
            assert token is None or token.waits


def check_offsets(store: OffsetStore, groups: Iterable[str]) -> None:
    """Checks that look-ups by topic, by group and by producer find the same offsets."""
    by_group = {
        (group, topic, index)
        for group in groups
        for topic, index in {*((t, i) for t, i, _ in store.of(group)), *store.pending(group)}
    }
    by_topic = {(group, topic, index) for topic in "tuv" for group, index in store.of_topic(topic)}
    assert by_group == by_topic
    held = {key for pending in store._pending.values() for key in pending.offsets}
    assert held == {(group, *place) for group in groups for place in store.pending(group)}


def offsets_of(driver: Driver, id: str) -> list[Any]:
    """Returns the group's offsets without their numbers, which count replays."""
    return sorted((*place, each._replace(number=0)) for *place, each in driver.shard.offsets.of(id))


def durable(driver: Driver, *, empty: bool) -> dict[str, Any]:
    """Returns what must survive a failover: committed offsets, and assignments that members have received.

    With ``empty``, also returns the generation of empty groups, which grows even if it cannot be written.
    """
    phases = (STABLE, EMPTY) if empty else (STABLE,)
    state: dict[str, Any] = {}
    for id, group in driver.shard.groups.items():
        settled = group.state in phases and not group.is_simple
        members = None
        if settled and group.generation:
            members = [
                (m.id, m.instance_id, m.metadata(group.protocol), m.assignment)
                for m in group.members
            ]
        state[id] = (
            (offsets_of(driver, id), set(driver.shard.offsets.pending(id))),
            members and (group.generation, group.protocol, group.members.leader_id, members),
        )
    return state


@pytest.mark.parametrize("seed", range(300))
def test_invariants_hold_after_every_event(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(STEPS):
        crowd.step()
        check_group(crowd.driver)
        check_offsets(crowd.driver.shard.offsets, crowd.driver.shard.groups)
    waiting = [ticket for ticket in crowd.tickets if ticket.waits]
    held = {
        token
        for group in crowd.driver.shard.groups.values()
        for member in group.members
        for token in (member.join_token, member.sync_token)
    }
    assert set(waiting) <= held, "somebody was forgotten"


@pytest.mark.parametrize("seed", range(100))
def test_every_request_is_answered_once(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(STEPS):
        crowd.step()
    crowd.driver.refuse = None
    crowd.driver.pass_ms(10_000_000)
    assert all(len(ticket.answers) == 1 for ticket in crowd.tickets)
    assert crowd.driver.shard.groups.get("g") is None or not crowd.driver.group().members


@pytest.mark.parametrize("refusals", [0, 0.2])
@pytest.mark.parametrize("seed", range(100))
def test_the_log_replayed_gives_the_durable_state_of_the_living_shard(
    seed: int, refusals: float
) -> None:
    crowd = Crowd(seed, refusals)
    for step in range(STEPS):
        crowd.step()
        if step % 10 == 0:
            loaded = Driver(SETTINGS, list(crowd.driver.log))
            replayed = durable(loaded, empty=not refusals)
            for id, (offsets, members) in durable(crowd.driver, empty=not refusals).items():
                assert replayed.get(id, (([], set()), None))[0] == offsets
                if members is not None:
                    assert replayed[id][1] == members


@pytest.mark.parametrize("seed", range(60))
def test_records_that_loading_skips_do_not_matter(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(STEPS):
        crowd.step()
    data = b"".join(batch_of(entry, at) for at, entry in enumerate(crowd.driver.log))
    loaded, expected = Driver(SETTINGS), Driver(SETTINGS, crowd.driver.log)
    loaded.shard = GroupShard(SETTINGS, lambda: "id")
    loading.replay(data, scan(data), loaded.shard, Skipped("the log"))
    assert set(loaded.shard.groups) == set(expected.shard.groups)
    for id in expected.shard.groups:
        assert offsets_of(loaded, id) == offsets_of(expected, id)
        assert loaded.shard.offsets.pending(id) == expected.shard.offsets.pending(id)


def batch_of(entry: Any, offset: int) -> bytes:
    """Returns the entry as a batch at ``offset``. For a marker, the offset does not matter."""
    if isinstance(entry, Marker):
        marker = EndTxnMarker(entry.producer.id, entry.producer.epoch, 0, entry.committed, 1)
        return encode(marker, 0)
    record, producer = entry if isinstance(entry, Held) else (entry, None)
    batch = builder(0, producer)
    batch.append(0, record.key, record.value)
    return batch.build(offset)


@pytest.mark.parametrize("seed", range(40))
def test_a_generation_has_one_leader(seed: int) -> None:
    crowd = Crowd(seed, settings=replace(SETTINGS, offsets_check_interval_ms=1 << 40))
    crowd.do_delete = crowd.do_commit  # type: ignore[method-assign]
    for _ in range(STEPS):
        crowd.step()
    leaders: dict[int, set[str]] = {}
    for ticket in crowd.tickets:
        answer = next(iter(ticket.answers), None)
        told = isinstance(answer, JoinGroup.Response) and answer.error_code == errors.NONE
        if told and answer.members and not answer.skip_assignment:
            leaders.setdefault(answer.generation_id, set()).add(answer.member_id)
    assert leaders
    assert all(len(ids) == 1 for ids in leaders.values())
