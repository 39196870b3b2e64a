"""Fixed defects of ``pybroker/replication``."""

from __future__ import annotations

import asyncio
from typing import Any

from proofs.defects import Patch, defect
from proofs.defects.suites import LOGS, in_histories
from pybroker.config.log_config import LogConfig
from pybroker.log import deep_cut
from pybroker.log.log import Log
from pybroker.log.moving.move import Move
from pybroker.replication.following.fetchers import Fetchers
from pybroker.replication.following.follower import Followed
from pybroker.replication.following.leader_session import Source
from pybroker.replication.isr import IsrTracker, Shrink
from pybroker.replication.leading import follower_session, isr_proposals
from pybroker.replication.moves import Moves
from pybroker.replication.partition_table import PartitionTable

TESTS = "pybroker/replication/tests"


@defect(f"{TESTS}/test_leader_session.py::test_a_high_watermark_in_an_ignored_answer_is_sent_again")
@in_histories("topics", *LOGS, rarely=True)
def a_high_watermark_is_told_once() -> list[Patch]:
    """If a follower cannot use an answer, it does not learn the high watermark in it. It learns only the next one."""
    return [(follower_session, "_may_have_missed", lambda before, now: False)]


@defect(f"{TESTS}/test_truncation.py::test_a_deep_truncation_is_done_in_pieces_without_fetching")
def a_deep_cut_is_read_in_one_turn() -> list[Patch]:
    """The event loop reads up to a whole segment in one turn."""
    return [(deep_cut, "producers_after_cut", lambda log, offset: (None, iter(())))]


@defect(f"{TESTS}/test_truncation.py::test_deep_truncations_take_turns")
def one_deep_cut_waits_for_the_other() -> list[Patch]:
    """A truncation waits until another log's truncation is over, however long that takes."""
    put_off = Source._put_off

    def put_first(self: Source, followed: Followed, until_ms: int) -> None:
        put_off(self, followed, until_ms)
        self._paused = {followed.key: followed, **self._paused}

    return [(Source, "_put_off", put_first)]


@defect("pybroker/replication/tests/test_moves.py::test_any_error_during_a_move_cancels_it")
def only_a_failed_disk_ends_a_move() -> list[Patch]:
    """A move that meets a damaged batch never ends, so the log is not compacted and cannot be moved."""

    async def run(self: Moves, move: Move, before: asyncio.Task[None] | None) -> None:
        if await self._switched(move):
            move.settle()
        self._tasks.pop(move.log.topic_partition)

    return [(Moves, "_run", run)]


@defect(f"{TESTS}/test_in_sync.py::test_a_proposal_names_the_registration_that_had_caught_up_not_one_that_has_fetched_since")
def a_proposal_names_the_latest_registration() -> list[Patch]:
    """A follower catches up, loses its power, and comes back with less before its proposal is sent. The proposal names
    the new registration, and the controller adds it to the in-sync set.
    """
    before = isr_proposals._epoch_of

    def epoch_of(replica: int, tracker: IsrTracker, proposal: Any, image: Any) -> int:
        return before(replica, tracker, Shrink(frozenset(), proposal.members), image)

    return [(isr_proposals, "_epoch_of", epoch_of)]


@defect(f"{TESTS}/test_in_sync.py::test_a_broker_registered_again_is_not_proposed_for_what_was_fetched_before")
def what_was_fetched_before_a_registration_counts_after_it() -> list[Patch]:
    """The fetches of a broker's former process count if it registers again without a restart."""

    def registered(self: IsrTracker, replica: int, broker_epoch: int) -> bool:
        follower = self.followers.get(replica)
        if follower is None or follower.is_eligible or follower.broker_epoch != broker_epoch:
            return False
        follower.is_eligible = True
        return True

    return [(IsrTracker, "registered", registered)]


@defect(
    f"{TESTS}/test_replica_manager.py"
    "::test_an_unreadable_min_insync_replicas_requires_all_replicas"
)
def an_unknown_configuration_asks_for_one_replica() -> list[Patch]:
    """A broker that starts while the configuration is garbled acknowledges records that have a single replica."""
    return [(LogConfig, "asking_all_replicas", lambda config: config)]


@defect(f"{TESTS}/test_truncation.py::test_a_log_start_is_named_when_it_survives_a_crash_and_not_before")
def a_follower_names_a_start_that_is_in_memory() -> list[Patch]:
    """The leader answers DeleteRecords. When the follower leads and is killed, the records come back."""
    return [(Log, "kept_start_offset", property(lambda self: self.log_start_offset))]


@defect(f"{TESTS}/test_truncation.py::test_an_answer_counts_even_if_the_log_start_has_changed_since")
def an_answer_is_void_when_a_log_start_was_told() -> list[Patch]:
    """The leader counted the high watermark as sent, and the follower lagged until the next record."""
    name = Source._name

    def as_another_place(self: Source, request: Any, followed: Followed) -> None:
        followed.asked = None
        name(self, request, followed)

    return [(Source, "_name", as_another_place)]


@defect(f"{TESTS}/test_flush_acks.py::test_a_follower_reports_an_offset_once_it_is_synced")
def what_a_follower_could_not_sync_is_named() -> list[Patch]:
    """With ``flush.acks`` and without free descriptors, the leader counted records in the follower's page cache."""

    def is_on_disk(self: Fetchers, partition: Any, done: Any) -> bool:
        log = partition.log
        return not log.config.flush_acks or self.shell.sync(partition, log.log_end_offset, lambda error: done(None))

    return [(Fetchers, "is_on_disk", is_on_disk)]


@defect(f"{TESTS}/test_new_logs.py::test_metadata_do_not_wait_for_new_logs")
def a_topic_is_answered_for_when_it_has_its_logs() -> list[Patch]:
    """The broker answers only when the logs exist: creating 5 topics of 1,000 partitions took 1.5 s."""

    def make_at_once(self: PartitionTable, topic_id: bytes, index: int) -> None:
        self.new.add(topic_id, index)
        self.new.make(topic_id, index)

    return [(PartitionTable, "make_later", make_at_once)]


@defect(f"{TESTS}/test_new_logs.py::test_a_log_that_is_not_made_yet_is_not_lost")
def a_log_that_is_made_later_is_lost() -> list[Patch]:
    """The broker reports a log that it has not made yet as lost, so the controller gives the partition another leader.
    """
    return [(PartitionTable, "make_later", lambda self, topic_id, index: self.new.add(topic_id, index))]


@defect(f"{TESTS}/test_new_logs.py::test_a_log_that_cannot_be_created_is_reported_as_lost")
def a_log_that_could_not_be_made_is_forgotten() -> list[Patch]:
    """The partition has a leader without a log."""
    return [(PartitionTable, "expect", lambda self, topic_id, index: False)]
