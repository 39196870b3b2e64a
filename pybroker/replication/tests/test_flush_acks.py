"""A follower of a topic with ``flush.acks`` names no offset that is not on its disk: the leader counts on it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.clock import SystemClock
from pybroker.log.tests.helpers import batch
from pybroker.replication.following.fetchers import Fetchers
from pybroker.replication.tests.harness import NOW, Node, topic_id
from pyclient.protocol import Fetch

LEADER, FOLLOWER, LEADER_EPOCH, SESSION = 2, 1, 3, 5


class Follower:
    """A broker that follows the leader of some topics, with a disk that can refuse to open files."""

    def __init__(self, node: Node, storage: FaultyStorage) -> None:
        self.node, self.storage = node, storage
        self.posts: list[Any] = []
        peers: Any = SimpleNamespace(post=lambda leader, request, done, **_: self.posts.append((request, done)))
        shell: Any = node.replicas
        self.fetchers = Fetchers(
            FOLLOWER, peers, shell, node.config, lambda *_: 0, SystemClock(), node.loop, lambda: 1
        )

    def create(self, name: str) -> Any:
        """Makes a topic whose log is on the disk, except for its last record."""
        options = {"replicas": (FOLLOWER, LEADER), "leader": LEADER, "epoch": LEADER_EPOCH, "flush_acks": "true"}
        partition = self.node.create(name, **options)
        partition.log.append_as_follower(batch(b"a", epoch=LEADER_EPOCH), LEADER_EPOCH, NOW)
        return partition

    def until(self, holds: Callable[[], object]) -> None:
        self.node.until(holds)

    def refuse(self, partition: Any) -> None:
        """Makes the sync of the partition's folder necessary, and lets it fail for lack of a descriptor."""
        partition.log._durability.names_synced = False
        self.storage.fail("sync_folder", errno.EMFILE, lambda path: path == partition.log.folder)

    def refusals(self) -> int:
        return self.storage.count("sync_folder")

    def named(self) -> dict[bytes, list[int]]:
        """Returns the offsets in all requests so far, by topic id."""
        offsets: dict[bytes, list[int]] = {}
        for request, _ in self.posts:
            for topic in request.topics:
                offsets.setdefault(topic.topic_id, []).extend(each.fetch_offset for each in topic.partitions)
        return offsets

    def answer(self, *names: str) -> None:
        """Answers the last request: the leader has another record of each of these topics."""
        kind = Fetch.Response
        data = kind.PartitionData(records=bytes(batch(b"b", base_offset=1, epoch=LEADER_EPOCH)))
        topics = [kind.FetchableTopicResponse(topic_id=topic_id(name), partitions=[data]) for name in names]
        self.posts[-1][1](kind(session_id=SESSION, responses=topics), None)


@pytest.fixture
def follower(make_node: Callable[..., Node], tmp_path: Path) -> Iterator[Follower]:
    storage = FaultyStorage()
    follower = Follower(make_node(root=tmp_path, storage=storage), storage)
    yield follower
    storage.heal()
    follower.fetchers.close()


def test_a_follower_reports_an_offset_once_it_is_synced(follower: Follower) -> None:
    t, u = follower.create("t"), follower.create("u")
    for partition in (t, u):
        follower.fetchers.assign(partition)
    follower.until(lambda: follower.posts)
    follower.answer()
    follower.until(lambda: len(follower.named()) == 2)
    follower.refuse(t)
    before = follower.refusals()
    follower.answer("t", "u")
    follower.until(lambda: follower.refusals() > before + 2)
    assert (t.log.log_end_offset, t.log.recovery_point, t.log.log_dir.offline) == (2, 1, False)
    assert follower.named()[topic_id("u")][-1] == 2, "the other partition goes on"
    assert 2 not in follower.named().get(topic_id("t"), [])
    follower.answer()
    follower.storage.heal()
    follower.until(lambda: 2 in follower.named().get(topic_id("t"), []))
    assert t.log.recovery_point == 2


def test_a_log_that_cannot_be_synced_is_not_followed_before_it_is(follower: Follower) -> None:
    partition = follower.create("t")
    follower.refuse(partition)
    before = follower.refusals()
    follower.fetchers.assign(partition)
    follower.until(lambda: follower.refusals() > before + 2)
    assert follower.posts == []
    follower.storage.heal()
    follower.until(lambda: follower.posts)
    assert (follower.named(), partition.log.recovery_point) == ({topic_id("t"): [1]}, 1)


def test_an_unsynced_log_is_dropped_with_its_partition(follower: Follower) -> None:
    partition = follower.create("t")
    follower.refuse(partition)
    before = follower.refusals()
    follower.fetchers.assign(partition)
    follower.until(lambda: follower.refusals() > before)
    follower.fetchers.stop(partition)
    follower.storage.heal()
    other = follower.create("u")
    follower.fetchers.assign(other)
    follower.until(lambda: follower.posts)
    assert list(follower.named()) == [topic_id("u")]
