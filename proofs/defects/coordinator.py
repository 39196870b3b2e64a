"""Defects of the coordinators."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from cy.wire.messages import Message
from proofs.defects import Patch, defect
from proofs.defects.suites import MEMBERS, TRANSACTIONS, in_histories, in_trial
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.coordinator import groups, runtime
from pybroker.coordinator.group import classic, joining, keeping
from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.consumer import expecting
from pybroker.coordinator.group.consumer.counting import count
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.member import ConsumerMember
from pybroker.coordinator.group.consumer.migration import downgrading, upgrading
from pybroker.coordinator.group.consumer.protocol import ConsumerProtocol
from pybroker.coordinator.group.consumer.timeouts import Wait
from pybroker.coordinator.group.offset_store import OffsetStore
from pybroker.coordinator.replies import send
from pybroker.coordinator.runtime import Runtime
from pybroker.coordinator.shard import Producer, Record, Result, Shard
from pybroker.coordinator.skipping import Skipped
from pybroker.coordinator.txn import remote
from pybroker.handlers import offset_fetch
from pybroker.handlers.common import admission
from pybroker.net.peer import CONTROL, Peers
from pyclient.protocol import OffsetFetch, errors

SKIPPING = "pybroker/coordinator/tests/test_skipping.py::"
RUNTIME = "pybroker/coordinator/tests/test_runtime.py::"
MIGRATION = "pybroker/coordinator/group/consumer/tests/test_migration.py::"
REFUSED = "pybroker/coordinator/group/consumer/tests/test_refused_migration.py::"


@defect("pybroker/handlers/tests/test_groups.py::test_an_offset_fetch_repeats_an_error_of_the_group_for_each_partition")
def an_error_of_the_group_leaves_the_partitions_out() -> list[Patch]:
    """The broker omits the partitions, as Kafka does. aiokafka then reads from the beginning, because the moved
    coordinator sent no offsets.
    """

    def refused(request: OffsetFetch.Request, call: Any, error: errors.KafkaError) -> OffsetFetch.Response:
        return OffsetFetch.Response(error_code=error.code)

    return [(offset_fetch, "_refused", refused)]


@defect(SKIPPING + "test_a_batch_with_unreadable_records_is_skipped")
def a_batch_that_is_none_stops_loading() -> list[Patch]:
    """A batch that cannot be decompressed stops the loading of its partition."""

    def add(self: Skipped, what: str, error: Exception) -> None:
        raise error

    return [(Skipped, "add", add)]


@defect(SKIPPING + "test_a_group_that_is_written_again_after_an_unreadable_record_is_whole")
def a_record_that_is_none_stops_loading() -> list[Patch]:
    """An unreadable record stops the loading of its partition."""

    def replay(self: Skipped, shard: Shard, record: Record, producer: Producer | None) -> bool:
        shard.replay(record, producer)
        return True

    return [(Skipped, "replay", replay)]


@defect(MIGRATION + "test_members_of_a_group_with_an_unreadable_record_join_again")
def members_without_a_subscription_stay() -> list[Patch]:
    """A member whose record was skipped stays in its group and never learns that it must subscribe again."""
    return [(ConsumerProtocol, "loaded", lambda self, result: None)]


@defect(
    "pybroker/handlers/tests/test_produce.py"
    "::test_a_client_cannot_produce_to_an_internal_topic_whatever_its_client_id"
)
def clients_write_to_internal_topics() -> list[Patch]:
    """A client that uses the client id of Kafka's tools writes to the coordinators' topics."""
    return [(admission, "is_closed", lambda partition: False)]


@defect(RUNTIME + "test_an_event_that_raises_leaves_no_waiting_request_without_an_answer")
def answers_of_an_event_that_raises_are_lost() -> list[Patch]:
    """If an event raises after it has taken answers from the queue, their clients wait forever."""
    return [(Runtime, "_abandon", lambda self, *abandoned: None)]


@defect(MIGRATION + "test_members_in_a_classic_rebalance_keep_waiting_if_an_upgrade_is_refused")
def an_upgrade_sends_away_before_it_is_sure() -> list[Patch]:
    """The coordinator evicts members of a classic group before it has checked the newcomer."""
    consumer_group = upgrading.consumer_group

    def eager(context: Any, group_id: str, joins: bool, result: Result) -> ConsumerGroup:
        classic = context.groups.get(group_id)
        upgraded = consumer_group(context, group_id, joins, result)
        if isinstance(classic, ClassicGroup):
            upgrading.take_over(classic, upgraded, None, result)
        return upgraded

    return [(upgrading, "consumer_group", eager)]


@defect(REFUSED + "test_a_static_member_whose_wait_a_refused_upgrade_ends_is_evicted_when_it_is_silent")
def a_refused_upgrade_leaves_members_without_a_session() -> list[Patch]:
    """A static member that waited when an upgrade was refused stays in its group for ever."""

    def send_away(group: ClassicGroup, result: Result) -> None:
        for member in group.members:
            result.reply(group.members.stop_waiting(member), errors.RebalanceInProgress())

    return [(upgrading, "_send_away", send_away)]


@defect(REFUSED + "test_a_classic_join_that_cannot_be_written_leaves_no_deadline")
def a_refused_classic_join_has_deadlines() -> list[Patch]:
    """A member that goes on in its generation is evicted because it does not sync."""

    def stop(group: ConsumerGroup, member_id: str, result: Result) -> None:
        group.context.timeouts.stop(group.id, member_id, Wait.JOIN)

    return [(expecting, "expect_nothing", stop)]


@defect("pybroker/coordinator/group/tests/test_faults.py::test_names_too_long_for_a_record_are_refused_at_once")
def a_member_id_may_be_too_long_for_a_record() -> list[Patch]:
    """A classic member that brings such an id into a consumer group gets UNKNOWN_SERVER_ERROR."""
    return [(joining, "LONGEST_ID", sys.maxsize)]


@defect(MIGRATION + "test_a_classic_member_that_repeats_a_protocol_supports_it_once")
def a_repeated_protocol_counts_twice() -> list[Patch]:
    """Members without a common protocol join a consumer group, and its last other member cannot leave."""
    count_once = ConsumerGroup._count

    def count_all(group: ConsumerGroup, member: ConsumerMember, by: int) -> None:
        count_once(group, member, by)
        if member.classic is not None:
            names = Counter(name for name, _ in member.classic.protocols)
            count(group.classic_protocols, (names - Counter(set(names))).elements(), by)

    return [(ConsumerGroup, "_count", count_all)]


@defect(REFUSED + "test_the_record_of_a_classic_group_is_not_built_only_to_see_that_it_is_too_large")
def an_empty_protocol_defeats_the_bound_of_a_classic_record() -> list[Patch]:
    """Each member that leaves costs the time to build a record of megabytes, which is refused."""
    return [(downgrading, "_least_size", lambda members: 0)]


@defect(REFUSED + "test_all_records_of_a_join_that_downgrades_a_group_fit_into_a_batch")
def a_downgrade_is_measured_without_the_records_of_the_join() -> list[Patch]:
    """Near the limit of a batch, a static member that comes back with the classic protocol is refused for ever."""
    size = downgrading._size
    return [(downgrading, "_size", lambda group, members, written: size(group, members, ()))]


@defect(MIGRATION + "test_a_static_member_whose_replacement_cannot_be_written_is_evicted_when_it_is_silent")
def a_refused_replacement_renews_the_session_of_the_replaced() -> list[Patch]:
    """A client that tries again and again keeps a silent member in the group."""

    def renew(group: ConsumerGroup, member: ConsumerMember, result: Result) -> None:
        replaced = group.static_member(member.instance_id)
        if replaced is not None and replaced.id != member.id:
            expecting.touch(group, replaced, result)

    return [(expecting, "expect_nothing_replaced", renew)]


@defect(RUNTIME + "test_offsets_of_a_topic_deleted_without_a_coordinator_do_not_count_for_its_successor")
@in_histories("groups of deleted topics", *MEMBERS)
def offsets_count_for_a_topic_that_was_made_again() -> list[Patch]:
    """OffsetFetch by name returns the offsets that were committed for a deleted topic of that name."""

    def current(shard: Any, topic: str, offsets: Mapping[int, Any]) -> dict[int, Any]:
        return dict(offsets)

    return [(keeping, "_current", current)]


@defect("pybroker/net/tests/test_peer.py::test_a_waiting_transaction_marker_does_not_delay_the_first_write_of_another_transaction")
def markers_and_admissions_share_a_connection() -> list[Patch]:
    """The coordinator's request waits behind a marker that waits for its replicas."""
    return [(remote, "MARKERS", remote.ADMISSION)]


@defect("pybroker/net/tests/test_peer.py::test_a_slow_topic_deletion_delays_neither_isr_changes_nor_other_requests")
def everything_for_the_controller_shares_a_connection() -> list[Patch]:
    """A change of the ISR waits behind clients' requests to the controller."""
    request = Peers.request

    async def by_one(self: Peers, node_id: int, message: Message, **options: Any) -> Any:
        return await request(self, node_id, message, **options | {"purpose": CONTROL})

    return [(Peers, "request", by_one)]


@defect(RUNTIME + "test_a_member_that_joins_again_at_once_is_slowed_down_while_too_few_replicas_are_in_sync")
def refusals_come_at_once() -> list[Patch]:
    """A client that retries at once joins thousands of times while appends are refused."""
    return [(Runtime, "_patience_s", lambda self, hosted, error: 0.0)]


@defect(
    "pybroker/coordinator/tests/test_runtime_transactions.py::"
    "test_a_late_copy_of_the_last_marker_does_not_refuse_the_next_transactions_offsets"
)
def a_late_marker_refuses_the_next_transaction() -> list[Patch]:
    """The broker refuses a transaction's offsets if the former marker's copy came while the broker verified them."""
    return [(groups, "MOST_ADMISSIONS", 1)]


@defect(
    "pybroker/coordinator/group/tests/test_faults.py::"
    "test_unused_member_ids_are_limited_and_removed_with_their_groups"
)
def ids_that_nobody_comes_for_are_unbounded() -> list[Patch]:
    """The broker remembers each member id that a client asks for, for up to half an hour."""
    return [(classic, "MOST_PENDING", 1 << 60)]


@defect(
    "pybroker/handlers/common/tests/test_admission.py"
    "::test_the_partition_of_a_batch_in_an_open_transaction_is_looked_up_once"
)
def partitions_of_a_transaction_are_looked_up_for_each_question() -> list[Patch]:
    """The broker looks each partition up before it asks the coordinator, and again for the append."""
    from pybroker.handlers import produce

    whole = produce.append

    def append(request: Any, call: Any, said: Any, topic: Any, data: Any, seen: Any, *more: Any) -> Any:
        return whole(request, call, said, topic, data, seen and seen._replace(partition=None), *more)

    return [(produce, "append", append)]


@defect(RUNTIME + "test_a_partition_that_could_not_be_loaded_is_loaded_again")
def a_partition_that_could_not_be_loaded_stays_so() -> list[Patch]:
    """After one lack of a descriptor, all groups of the partition get NOT_COORDINATOR until another leader is elected.
    """
    return [(Runtime, "_begin_load", _load_once)]


def _load_once(self: Runtime[Any], hosted: Any) -> None:
    if hosted.loading is None:
        hosted.loading = self._loop.create_task(self._load(hosted))


@defect(
    "pybroker/coordinator/txn/tests/test_marker_sender.py"
    "::test_a_topic_that_the_metadata_have_lost_gets_its_marker_when_it_comes_back"
)
def a_topic_that_the_metadata_have_lost_needs_no_marker() -> list[Patch]:
    """The coordinator completes the transaction without the marker. When the topic comes back, the transaction is still
    open there.
    """
    return [(MetadataImage, "_apply_losses", lambda self, delta: frozenset())]


@in_trial("coordinator", "went back")
@in_histories("groups", *MEMBERS)
def answers_a_commit_at_once() -> list[Patch]:
    """A coordinator answers before the replicas have the records that it confirms."""
    return [(runtime, "send", lambda replies, promise: send(replies, None))]


@in_histories("groups", *MEMBERS)
def swallows_answers() -> list[Patch]:
    """An event that raises loses the answers that it has taken from the queue, here the refusal of an upgrade."""
    return [*an_upgrade_sends_away_before_it_is_sure(), *answers_of_an_event_that_raises_are_lost()]


@in_trial("coordinator", "went back")
@in_histories("groups", *MEMBERS)
@in_histories("commits", *TRANSACTIONS)
def loads_nothing() -> list[Patch]:
    """A new coordinator does not read what the old one has written."""

    async def load(self: Any, hosted: Any) -> None:
        hosted.loading = None

    return [(Runtime, "_load", load)]


@in_trial("coordinator", "went back")
def keeps_the_oldest_offset() -> list[Patch]:
    """The coordinator ignores a group's later commits."""
    commit = OffsetStore.commit

    def commit_first(self: OffsetStore, key: Any, committed: Any) -> None:
        group_id, topic, partition = key
        if partition not in self.of(group_id).topics().get(topic, {}):
            commit(self, key, committed)

    return [(OffsetStore, "commit", commit_first)]
