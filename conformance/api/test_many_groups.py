"""A thousand groups are listed, found again after a kill, and deleted."""

from __future__ import annotations

from typing import Any

from conformance.conftest import NewBroker
from harness.clients.members import find_coordinator
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire
from harness.waiting import until

GROUPS = 1_000


def commit_all(wire: Wire, names: list[str]) -> set[int]:
    """Commits one offset for each group, pipelined. Returns the error codes."""
    codes = set()
    for at in range(0, len(names), 50):
        part = names[at : at + 50]
        sent = []
        for number, name in enumerate(part, at):
            row = {"partition_index": 0, "committed_offset": number, "committed_metadata": ""}
            topics = [{"name": "t", "partitions": [row]}]
            sent.append(wire.post("OffsetCommit", 8, group_id=name, topics=topics))
        for correlation_id in sent:
            codes.add(wire.reply("OffsetCommit", 8, correlation_id).topics[0].partitions[0].error_code)
    return codes


def listed(wire: Wire, **filters: Any) -> set[str]:
    """Returns the broker's groups, once the coordinators have loaded them."""
    fields = {"states_filter": [], "types_filter": [], **filters}
    replies: list[Any] = []

    def look() -> bool:
        replies.append(wire.ask("ListGroups", 5, **fields))
        return replies[-1].error_code not in error_codes.COORDINATOR_NOT_READY

    until(look, "the coordinators", 60)
    assert replies[-1].error_code == 0
    return {each.group_id for each in replies[-1].groups}


def fetched(wire: Wire, names: list[str]) -> list[int]:
    """Fetches the offsets of all groups in one request."""
    topics = [{"name": "t", "partition_indexes": [0]}]
    groups = [{"group_id": name, "topics": topics} for name in names]
    reply = wire.ask("OffsetFetch", 8, groups=groups, require_stable=True)
    assert {each.error_code for each in reply.groups} == {0}
    return [each.topics[0].partitions[0].committed_offset for each in reply.groups]


def test_a_thousand_groups_are_listed_survive_a_kill_and_can_be_deleted(new_broker: NewBroker) -> None:
    broker = new_broker()
    names = [f"group-{number}" for number in range(GROUPS)]
    with Wire(broker.address, 60) as wire:
        wire.create_topic("t")
        until(lambda: find_coordinator(wire, names[0]).error_code == 0, "a coordinator", 60)
        until(lambda: commit_all(wire, names) == {0}, "all commits", 60)
        assert listed(wire) == set(names)
        assert listed(wire, states_filter=["Stable"]) == set()
        assert listed(wire, types_filter=["classic"]) == set(names)
    broker.kill()
    broker.start()
    with Wire(broker.address, 60) as wire:
        until(lambda: listed(wire) == set(names), "all groups", 60)
        assert fetched(wire, names) == list(range(GROUPS))
        reply = wire.ask("DeleteGroups", 1, groups_names=names[: GROUPS // 2])
        assert {each.error_code for each in reply.results} == {0}
        assert listed(wire) == set(names[GROUPS // 2 :])
