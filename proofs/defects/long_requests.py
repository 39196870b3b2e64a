"""Defects of long requests."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from proofs.defects import Patch, defect
from pybroker.cluster.decisions import topic_names
from pybroker.coordinator import topic_regex
from pybroker.handlers import delete_records, fetch, offset_fetch, write_txn_markers
from pybroker.handlers.common import admission, offset_writes, turns, writes
from pybroker.handlers.common.pacing import one_by_one
from pybroker.handlers.common.turns import Turn
from pybroker.handlers.produce import Appends
from pybroker.log import validation
from pybroker.net import connection, routes
from pybroker.replication import fetch_partition, purgatory
from pybroker.replication.fetch_session import FetchSessions
from pybroker.replication.fetching import Fetch
from pybroker.replication.purgatory import WaitingForMany
from pyclient.protocol import errors


@defect("pybroker/net/tests/test_long_requests.py::test_many_pipelined_requests_leave_the_event_loop_free_in_between")
def a_packet_of_requests_is_served_in_one_visit() -> list[Patch]:
    """The broker served all received requests before it served anybody else."""
    return [(connection, "VISIT_S", float("inf"))]


@defect("pybroker/handlers/tests/test_produce.py::test_a_produce_of_many_batches_is_served_in_several_turns")
def a_produce_is_served_in_one_turn() -> list[Patch]:
    """A request of many batches held the loop until all of them were appended."""
    return [(Turn, "is_over", lambda turn: False)]


@defect(
    "pybroker/handlers/tests/test_produce.py"
    "::test_a_produce_cancelled_between_two_turns_leaves_nothing_in_the_purgatory"
)
def acks_of_a_producer_that_went_away_between_two_turns_are_waited_for() -> list[Patch]:
    """The broker waited until the request's timeout, which may be weeks."""
    return [(Appends, "give_up", lambda self: None)]


@defect("pybroker/handlers/tests/test_produce.py::test_a_batch_that_unpacks_to_many_bytes_is_checked_on_another_thread")
def batches_are_unpacked_on_the_loop() -> list[Patch]:
    """The loop's thread unpacked each batch, however large."""
    return [(validation, "UNPACKED_ON_LOOP", None)]


@defect("pybroker/handlers/tests/test_produce.py::test_a_large_batch_is_recompressed_on_another_thread")
def batches_are_repacked_on_the_loop() -> list[Patch]:
    """The loop's thread applied a topic's own codec, also to a batch of a megabyte."""
    return [(validation, "PACKED_ON_LOOP", 1 << 40)]


@defect(
    "pybroker/handlers/common/tests/test_admission.py"
    "::test_a_batch_is_refused_if_its_transaction_ends_while_a_thread_checks_it"
)
def what_is_open_when_a_request_comes_is_taken_for_open_in_its_later_turns() -> list[Patch]:
    """A batch that a thread had unpacked came after the marker, and began a transaction that nobody ended."""
    return [(admission, "nothing_said", lambda seen: None)]


@defect(
    "pybroker/handlers/common/tests/test_turns.py"
    "::test_the_event_loop_serves_every_ready_task_once_between_two_turns"
)
def a_turn_follows_the_last_one_at_once() -> list[Patch]:
    """The broker served nobody else until a long request was over."""

    async def sleep(delay: float) -> None:
        return None

    return [(turns, "asyncio", SimpleNamespace(Lock=asyncio.Lock, sleep=sleep))]


@defect(
    "pybroker/handlers/common/tests/test_pacing.py"
    "::test_a_long_request_holds_its_connection_and_lets_other_tasks_run_between_its_turns"
)
@defect(
    "pybroker/handlers/tests/test_metadata.py"
    "::test_metadata_of_many_partitions_is_the_same_in_several_turns_as_in_one"
)
@defect(
    "pybroker/handlers/tests/test_log_dirs.py"
    "::test_describe_log_dirs_gives_the_same_answer_in_several_turns_as_in_one"
)
@defect(
    "pybroker/handlers/tests/test_transactions.py"
    "::test_many_partitions_are_added_to_a_transaction_in_several_turns"
)
@defect(
    "pybroker/handlers/tests/test_fetch_many.py"
    "::test_other_tasks_run_between_the_turns_of_a_fetch_of_many_partitions"
)
def a_request_of_many_items_is_served_in_one_turn() -> list[Patch]:
    """Metadata, DescribeLogDirs, AddPartitionsToTxn … of a hundred thousand items held the loop, for up to 0.5 s."""
    return [(Turn, "is_over", lambda turn: False)]


@defect(
    "pybroker/handlers/tests/test_groups_of_many.py"
    "::test_an_error_in_one_part_of_an_offset_fetch_is_the_answer_for_the_whole_group"
)
def a_group_whose_parts_differ_is_answered_with_some_of_them() -> list[Patch]:
    """Clients took the offsets in such an OffsetFetch answer for all that the group had committed."""

    async def ends_early(items: Any, do: Any, call: Any) -> None:
        with suppress(errors.NotCoordinator):
            await one_by_one(items, do, call)

    return [(offset_fetch, "one_by_one", ends_early)]


@defect(
    "pybroker/handlers/tests/test_produce.py"
    "::test_a_produce_whose_batches_are_refused_leaves_nothing_to_the_garbage_collector"
)
def refused_batches_stay_until_the_garbage_is_collected() -> list[Patch]:
    """The broker kept the first error with its frames. They held the request, and the request held the error."""
    return [(errors, "without_frames", lambda error: error)]


@defect(
    "pybroker/handlers/tests/test_produce.py"
    "::test_a_batch_that_a_thread_refuses_leaves_nothing_to_the_garbage_collector"
)
def batches_that_a_thread_refuses_stay_until_the_garbage_is_collected() -> list[Patch]:
    """Refused batches of zip bombs kept 100 MB of memory."""
    return [(errors, "without_frames", lambda error: error)]


@defect(
    "pybroker/net/tests/test_long_requests.py"
    "::test_a_large_request_that_is_refused_leaves_nothing_to_the_garbage_collector"
)
def a_refused_request_stays_until_the_garbage_is_collected() -> list[Patch]:
    """The exception, its frame and the future formed a cycle, so the request's bytes stayed for minutes."""

    def on_result(self: Any, reply: Any, source: Any) -> None:
        reply.source = None
        try:
            self._set(reply, source.result())
        except connection.MALFORMED as error:
            self._malformed(error)

    return [(connection.Connection, "_on_result", on_result)]


@defect("pybroker/net/tests/test_memory_of_requests.py::test_a_decoded_request_takes_memory_in_proportion_to_its_size[Metadata]")
def requests_hold_as_much_as_fits() -> list[Patch]:
    """A Metadata request of empty names took 29 bytes of memory for each of its own bytes."""
    plain = routes._route
    return [(routes, "_route", lambda row: plain(row)._replace(most_units=1 << 60))]


@defect("pybroker/handlers/tests/test_fetch_many.py::test_a_record_appended_between_two_turns_of_a_fetch_ends_its_wait")
def a_fetch_of_many_partitions_waits_for_what_came_while_it_was_read() -> list[Patch]:
    """An append that comes between two turns wakes nobody, because the fetch does not wait yet."""

    def watch(self: WaitingForMany, numbers: Any) -> None:
        for number in numbers:
            partition = self._fetch.partitions[number]
            assert partition is not None
            self._entered.append(partition)
            self.purgatory.watch(self, partition, number)

    return [(WaitingForMany, "watch", watch)]


@defect("pybroker/handlers/tests/test_fetch_many.py::test_every_step_of_a_fetch_of_many_partitions_takes_several_turns")
def a_fetch_of_many_partitions_begins_to_wait_in_one_turn() -> list[Patch]:
    """Sixty thousand partitions held the loop for 60 ms."""

    async def wait(operation: Fetch, max_wait_ms: int, call: Any) -> None:
        waiting = call.broker.replicas.purgatory.begin(operation, max_wait_ms)
        waiting.watch(range(len(operation.wanted)))
        await waiting

    return [(fetch, "wait", wait)]


@defect("pybroker/handlers/tests/test_fetch_many.py::test_every_step_of_a_fetch_of_many_partitions_takes_several_turns")
def a_fetch_of_many_partitions_ends_its_wait_in_one_turn() -> list[Patch]:
    """The append that ended the fetch's wait was held up meanwhile."""

    def remove(self: purgatory.Purgatory, waiting: purgatory.Waiting) -> None:
        self._watched -= self._many.pop(waiting, 0)
        for partition in waiting.watched:
            self.unwatch(waiting, partition)
        waiting.watched = ()

    return [(purgatory.Purgatory, "remove", remove)]


@defect("pybroker/handlers/tests/test_fetch_many.py::test_every_step_of_a_fetch_of_many_partitions_takes_several_turns")
def a_request_of_many_changes_its_session_in_one_turn() -> list[Patch]:
    """The broker measured a request's size without its forgotten partitions, so it removed all of them in one turn."""
    return [(fetch, "names_many", lambda request: sum(len(topic.partitions) for topic in request.topics) > 2)]


@defect(
    "pybroker/handlers/tests/test_fetch_many.py"
    "::test_the_number_of_partitions_that_waiting_fetches_watch_is_limited"
)
def fetches_wait_for_whatever_is_asked_for() -> list[Patch]:
    """Each connection could have a hundred waiting fetches of a hundred thousand partitions each."""
    return [(purgatory.Purgatory, "_remember", lambda self, waiting, count: None)]


@defect("pybroker/handlers/tests/test_fetch_many.py::test_the_number_of_partitions_in_fetch_sessions_is_limited")
def fetch_sessions_remember_whatever_is_asked_for() -> list[Patch]:
    """A thousand sessions of thirty thousand partitions each take as many gigabytes."""
    return [(FetchSessions, "_has_room", lambda self, now_ms, owner, more=0: True)]


@defect(
    "pybroker/handlers/tests/test_fetch_many.py"
    "::test_a_fetch_of_unknown_partitions_leaves_nothing_to_the_garbage_collector"
)
def errors_of_fetched_partitions_stay_until_the_garbage_is_collected() -> list[Patch]:
    """Thirty thousand errors held 26 MB, and the collection that found them held the loop for 160 ms."""
    return [(fetch_partition, "without_frames", lambda error: error)]


@defect("pybroker/handlers/tests/admin/test_topic_administration.py::test_a_topic_that_a_long_request_names_twice_is_refused")
@defect("pybroker/handlers/tests/admin/test_configurations.py::test_a_resource_that_a_long_request_names_twice_is_refused")
@defect(
    "pybroker/handlers/tests/admin/test_topic_administration.py"
    "::test_a_partition_that_a_reassignment_names_twice_is_refused"
)
def what_is_named_twice_in_different_pieces_is_served_twice() -> list[Patch]:
    """The first piece created a topic, and the second answered that the topic exists. Or the first deleted it, and the
    second did not find it.
    """
    return [(writes.Repeated, "arranged", lambda self, items, key, spelled: items)]


@defect("pybroker/handlers/tests/test_groups_of_many.py::test_the_timeout_of_delete_records_covers_all_its_parts")
def each_part_has_the_timeout_of_the_whole_request() -> list[Patch]:
    """A hundred parts waited a hundred times as long as the request allows."""

    async def in_time(items: Any, do: Any, call: Any) -> None:
        for item in items:
            call.broker.clock.advance(-call.broker.clock.monotonic_ms())
            await do(item)

    return [(delete_records, "one_by_one", in_time)]


@defect(
    "pybroker/handlers/tests/admin/test_topic_administration.py"
    "::test_the_topics_of_a_long_forwarded_request_are_created_in_several_pieces"
)
def topics_are_made_in_one_write() -> list[Patch]:
    """Four thousand topics held the controller's loop for 390 ms."""
    return [(writes, "ITEMS_AT_ONCE", 1 << 40)]


@defect("pybroker/handlers/tests/admin/test_topic_administration.py::test_many_topics_are_deleted_in_pieces_of_100")
def each_topic_is_written_by_itself() -> list[Patch]:
    """A write takes more than a turn, however small it is: four thousand topics took eleven seconds."""
    return [(writes, "ITEMS_AT_ONCE", 1)]


@defect(
    "pybroker/handlers/tests/test_groups_of_many.py"
    "::test_an_offset_commit_of_many_partitions_is_written_in_parts_of_500"
)
@defect(
    "pybroker/handlers/tests/test_groups_of_many.py"
    "::test_transaction_markers_of_many_partitions_are_written_in_parts"
)
def each_partition_waits_for_other_replicas_by_itself() -> list[Patch]:
    """With three brokers, OffsetCommit of 10,000 partitions and WriteTxnMarkers of 25,000 got no answer in 20 s."""
    return [(offset_writes, "PARTITIONS_AT_ONCE", 1), (write_txn_markers, "WAITING_AT_ONCE", 1)]


@defect("pybroker/coordinator/tests/test_runtime.py::test_refused_requests_leave_nothing_to_the_garbage_collector")
def refused_requests_to_coordinators_stay_until_the_garbage_is_collected() -> list[Patch]:
    """DeleteGroups of 130,000 unknown groups left as many errors, and their collection held the loop for 130 ms."""
    return [(errors, "without_frames", lambda error: error)]


@defect("pybroker/handlers/tests/test_new_logs.py::test_a_fetch_of_many_new_partitions_creates_one_log_per_turn")
def a_fetch_makes_all_its_logs_in_one_turn() -> list[Patch]:
    """A thousand logs of a new topic would hold the loop for 0.2 s."""

    async def make_at_once(partitions: Any, call: Any) -> None:
        """Makes the logs when they are looked up."""

    return [(fetch, "make_logs", make_at_once)]


@defect("pybroker/cluster/decisions/tests/test_topic_names.py::test_the_time_to_check_a_topic_name_does_not_grow_with_the_number_of_topics")
def all_names_are_gone_through_for_a_new_one() -> list[Patch]:
    """Beside 10,000 topics, the plan of one new topic took 1.3 ms instead of 0.05 ms."""
    return [(topic_names, "NAMES_PER_LOOKUP", 1_000_000)]


@defect("pybroker/tests/security/test_strangers.py::test_a_pattern_that_takes_long_to_parse_is_refused[repetitions]")
def clients_send_regular_expressions_of_any_weight() -> list[Patch]:
    """ListTransactions needs no right. One expression of 32 KB held the loop for a second, or took gigabytes."""
    return [(topic_regex, "HEAVIEST", 1 << 30)]
