"""Defects of the SDK's consumer."""

from __future__ import annotations

from typing import Any

from proofs.defects import Patch, defect
from pyclient.consumer.appointments import LOST
from pyclient.consumer.group.membership import Membership, Partitions
from pyclient.consumer.offsets.committed import CommittedOffsets
from pyclient.consumer.offsets.positions import PositionFinder
from pyclient.consumer.types import GroupMetadata


def _metadata(self: Membership) -> GroupMetadata:
    return GroupMetadata(self.group_id, self.epoch, self.member_id, self.instance_id)


@defect(
    "pyclient/consumer/tests/test_classic.py"
    "::test_an_evicted_member_keeps_its_identity_until_the_application_polls"
)
def a_consumer_tells_who_it_is_now() -> list[Patch]:
    """An evicted consumer loses its old identity at once. Its transaction then also commits offsets that the new owners
    of its partitions have committed.
    """
    return [(Membership, "metadata", _metadata)]


@defect(
    "pyclient/consumer/tests/test_modern.py"
    "::test_an_evicted_member_keeps_its_identity_until_the_application_polls"
)
def a_member_that_was_put_out_joins_again_while_the_application_works() -> list[Patch]:
    """Without a listener, the consumer adopts another assignment while the application still processes a batch. The
    positions no longer belong to that batch.
    """

    async def lose(self: Membership, partitions: Partitions) -> None:
        if partitions:
            self._hold_back(partitions)
            self._heard = self._losses
            await self._change(LOST, partitions, self.owned() - set(partitions))

    return [(Membership, "lose", lose)]


@defect("pyclient/tests/consumer/test_pauses.py::test_a_partition_is_read_however_many_others_are_paused")
def paused_partitions_fill_the_buffer() -> list[Patch]:
    """Records of paused partitions fill the buffer and block all other partitions until they are resumed."""
    from pyclient.consumer.fetching import buffer

    return [(buffer, "to_drop", lambda states, limit: [])]


@defect("pyclient/tests/consumer/test_large_batches.py::test_an_arrow_batch_is_limited_in_bytes_and_no_record_is_missing")
def an_arrow_batch_is_bounded_by_its_rows_alone() -> list[Patch]:
    """An Arrow batch of more than 2 GiB cannot be created."""
    from pyclient.consumer.fetching.fetcher import Fetcher

    take = Fetcher.take
    return [(Fetcher, "take", lambda self, limit, most=0: take(self, limit))]


@defect("pyclient/tests/consumer/test_large_batches.py::test_positions_move_only_when_the_arrow_batch_is_made")
def records_of_an_arrow_batch_that_is_not_made_are_passed_over() -> list[Patch]:
    """The position skips these records."""
    from pyclient.consumer.fetching.fetcher import Fetcher

    return [(Fetcher, "give_back", lambda self: None)]


@defect(
    "pyclient/consumer/tests/test_fetcher.py"
    "::test_a_batch_that_unpacks_too_large_is_not_called_damaged"
)
def a_batch_that_becomes_large_is_called_damaged() -> list[Patch]:
    """The error names a damaged batch, whatever limit was set."""
    from pyclient.consumer.fetching import fetcher

    return [(fetcher, "OutputTooLarge", ())]


@defect(
    "pyclient/tests/test_deleted_topics.py"
    "::test_a_consumer_does_not_recreate_a_topic_that_it_unsubscribed_from"
)
def what_a_client_once_asked_for_may_be_created_for_ever() -> list[Patch]:
    """Each metadata refresh creates a deleted topic again."""
    from pyclient.core.interest import Interest

    return [(Interest, "may_create", property(lambda self: self.create))]


@defect(
    "pyclient/core/tests/test_metadata.py"
    "::test_only_unused_topics_are_forgotten_after_a_while"
)
def topics_are_asked_for_as_long_as_the_client_lives() -> list[Patch]:
    """Metadata requests grow with each topic that was ever used."""
    from pyclient.core.interest import Interest

    return [(Interest, "is_idle", lambda self, now, max_idle: False)]


@defect("pyclient/core/tests/test_metadata.py::test_other_topics_do_not_wait_for_a_missing_one")
def one_topic_that_is_not_there_slows_down_all_others() -> list[Patch]:
    """All topics share one back-off."""
    from pyclient.core.metadata import MetadataKeeper

    request = MetadataKeeper._request

    async def wait_for_all(self: MetadataKeeper, wish: int, new: Any) -> None:
        await request(self, wish, new)
        self._not_before = max([self._not_before, *(each.not_before for each in self._wanted.values())])

    return [(MetadataKeeper, "_request", wait_for_all)]


@defect("pyclient/core/tests/test_metadata.py::test_a_new_topic_is_requested_alone_and_the_next_refresh_requests_all")
def a_new_topic_asks_for_all_that_are_known() -> list[Patch]:
    """The first records to a thousand topics put half a million topic entries into requests."""
    from pyclient.core.metadata import MetadataKeeper

    request = MetadataKeeper._request

    async def ask_for_all(self: MetadataKeeper, wish: int, new: Any) -> None:
        await request(self, wish, None)

    return [(MetadataKeeper, "_request", ask_for_all)]


@defect("pyclient/core/nodes/tests/test_addresses.py::test_a_client_connects_although_the_first_address_is_dead")
def each_attempt_begins_with_the_first_address() -> list[Patch]:
    """An address that never answers uses up the time of every attempt."""
    from pyclient.core.nodes.addresses import Addresses

    return [(Addresses, "ordered", lambda self, resolved: list(resolved))]


@defect("pyclient/spark/tests/test_source_options.py::test_an_option_that_would_have_no_effect_is_an_error")
def options_without_effect_are_passed_over() -> list[Patch]:
    """A named write without exactly-once is repeated silently."""
    from pyclient.spark import options

    return [(options, "_check_needs", lambda option, values: None)]


@defect(
    "pyclient/consumer/tests/test_positions.py"
    "::test_a_seek_while_offsets_are_looked_up_wins_and_no_record_is_read_twice"
)
def a_committed_offset_that_is_found_late_undoes_a_seek() -> list[Patch]:
    """The consumer reads records a second time that it has read since the seek, even within an exactly-once
    transaction.
    """
    plain = PositionFinder._unknown

    async def unknown(self: PositionFinder, states: list[Any]) -> Any:
        failed = await plain(self, states)
        committed: CommittedOffsets | None = self._committed
        assert committed is not None
        found, _ = await committed.once([state.tp for state in states])
        for state in states:
            if offset := found.get(state.tp):
                state.seek(offset.offset)
        return failed

    return [(PositionFinder, "_unknown", unknown)]


@defect(
    "pyclient/tests/consumer/test_without_group.py"
    "::test_a_topic_that_is_subscribed_again_is_read_from_its_end"
)
def a_topic_that_was_left_counts_as_one_that_is_read() -> list[Patch]:
    """Without a group, a topic's partitions count as added when it is subscribed to again. The consumer reads them from
    their first record.
    """
    from pyclient.consumer.alone import Alone

    return [(Alone, "_forget_left", lambda self: None)]


@defect(
    "pyclient/tests/consumer/test_without_group.py"
    "::test_by_default_a_topic_that_matches_later_is_read_from_its_first_record"
)
def a_topic_that_matches_later_is_read_from_its_end() -> list[Patch]:
    """Without a group, the consumer skips records that were written before it learned of the topic."""
    from pyclient.consumer.alone import Alone

    return [(Alone, "_listed", property(lambda self: None, lambda self, pattern: None))]


@defect(
    "pyclient/consumer/tests/test_trouble.py"
    "::test_a_new_assignment_clears_errors_of_the_one_before"
)
def an_error_outlives_the_subscription_that_it_is_of() -> list[Patch]:
    """The first poll after the next ``subscribe`` raises the error of the former subscription."""
    from pyclient.consumer.poll_errors import PollErrors

    return [(PollErrors, "forget", lambda self: setattr(self, "lasting", None))]


@defect(
    "pyclient/consumer/tests/test_commits.py"
    "::test_a_partition_missing_from_an_answer_is_an_error_not_an_absent_commit"
)
def a_partition_that_an_answer_lacks_has_no_commit() -> list[Patch]:
    """auto.offset.reset chooses the position: the consumer reads records again, or skips them."""
    fetch = CommittedOffsets._fetch

    async def believe(self: CommittedOffsets, node: int, partitions: Any) -> Any:
        found, errors = await fetch(self, node, partitions)
        return found, {tp: error for tp, error in errors.items() if "does not have it" not in str(error)}

    return [(CommittedOffsets, "_fetch", believe)]


@defect("pyclient/tests/interruptions/test_signals.py::test_an_interrupted_poll_skips_no_record[poll]")
def what_an_interrupted_poll_had_taken_is_lost() -> list[Patch]:
    """The next poll also commits records that the application never received."""
    from pyclient.consumer.fetching.fetcher import Fetcher

    return [(Fetcher, "give_back", lambda self: None)]
