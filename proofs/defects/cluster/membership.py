"""Defects of a broker's membership in its cluster."""

from __future__ import annotations

import asyncio
from typing import Any

from cy.wire.wire_types import EncodedArray
from proofs.defects import Patch, defect
from proofs.defects.suites import in_histories
from pybroker.cluster import membership, namesake
from pybroker.cluster.cluster_secret import ClusterSecret
from pybroker.cluster.controller import ControllerService
from pybroker.cluster.following import PAUSE_S, Following, newest
from pybroker.cluster.membership import Membership
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MetadataImage, TopicImage
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.cluster.nodes.controller_election import Leadership, become_controller
from pybroker.cluster.owner_process import Owner
from pybroker.handlers.common.described import DescribedTopics, Form
from pybroker.store.interface import CoordinationStore, Create, NoNode


@defect(
    "pybroker/cluster/tests/test_empty_store.py"
    "::test_an_empty_store_is_queried_rarely_and_brokers_can_be_stopped"
)
@in_histories("empty store", "restless", "stops", "settles")
def a_candidate_asks_an_empty_store_without_a_pause() -> list[Patch]:
    """In a store without even the cluster's folder, every claim fails and is repeated at once."""

    async def stand(store: CoordinationStore, node_id: int, now_ms: int) -> Leadership | None:
        while (await store.get_many([znodes.CLUSTER_ID]))[0] is None:
            try:
                await store.multi([Create(f"{znodes.BROKER_IDS}/claim", ephemeral=True)])
            except NoNode:
                continue
        return await become_controller(store, node_id, now_ms)

    return [(membership, "become_controller", stand)]


@defect(
    "pybroker/cluster/tests/test_registrations.py"
    "::test_a_broker_on_copied_log_dirs_of_a_live_one_is_refused_at_once"
)
def a_broker_with_the_same_log_dirs_counts_as_dead() -> list[Patch]:
    """Two brokers on copies of one folder remove each other's registration."""
    return [(namesake, "owner_of", lambda process: Owner.DEAD)]


@defect(
    "pybroker/cluster/tests/test_registrations.py"
    "::test_a_broker_whose_session_expired_names_no_controller_until_it_has_rejoined"
)
def a_broker_without_a_session_tells_what_it_knew() -> list[Patch]:
    """Commands trust the old metadata, and wait for a controller that no longer exists."""
    return [(MetadataCache, "live_controller", property(lambda self: self.image.live_controller))]


@defect(
    "pybroker/cluster/tests/test_missing_topics.py"
    "::test_brokers_that_started_without_the_nodes_of_a_topic_learn_of_it_once_they_are_restored"
)
def only_the_controller_looks_at_the_store_again() -> list[Patch]:
    """A broker that read the store while nodes were missing waits for a journal entry that nobody writes."""

    async def look(broker: Membership) -> None:
        if broker._service.is_controller:
            await broker._service.look_at_store()

    return [(Membership, "look_at_store", look)]


@defect(
    "pybroker/cluster/tests/test_registrations.py"
    "::test_a_broker_whose_session_expires_twice_in_a_row_rejoins_once"
)
def a_broker_joins_again_as_often_as_its_session_has_ended() -> list[Patch]:
    """The broker repeats each failed attempt later, and then removes another broker's registration."""
    rejoin = Membership._rejoin

    async def again(broker: Membership) -> None:
        broker._rejoined = 0
        await rejoin(broker)

    return [(Membership, "_rejoin", again)]


@defect("pybroker/cluster/tests/test_following.py::test_a_store_without_a_journal_is_queried_with_growing_pauses")
def an_empty_store_is_asked_five_times_a_second_for_good() -> list[Patch]:
    """Each time the broker asks, it reads ten nodes and logs a line."""

    async def pause(self: Following) -> None:
        await asyncio.sleep(PAUSE_S)

    return [(Following, "_pause", pause)]


@defect(
    "pybroker/cluster/tests/test_empty_store.py"
    "::test_brokers_that_return_to_a_new_store_use_its_secret"
)
def the_secret_is_read_once() -> list[Patch]:
    """After the store was emptied, running brokers and those that started later refuse each other for good."""
    read = ClusterSecret.read

    async def read_once(self: ClusterSecret) -> None:
        if not self.value:
            await read(self)

    return [(ClusterSecret, "read", read_once)]


@defect("pybroker/cluster/tests/test_empty_store.py::test_a_secret_that_only_the_store_has_lost_is_written_back")
def a_lost_secret_stays_lost() -> list[Patch]:
    """The next broker that starts creates another secret, and the running brokers never learn it."""

    async def make(self: ClusterSecret) -> None:
        if not self.value:
            await real(self)

    real = ClusterSecret._make
    return [(ClusterSecret, "_make", make)]


BACKUP = (
    "pybroker/cluster/tests/test_empty_store.py"
    "::test_brokers_follow_a_store_restored_from_a_backup_though_they_know_later_versions"
)


@defect(BACKUP)
def the_largest_version_is_the_newest() -> list[Patch]:
    """Brokers show the state from before the backup until the journal is as long again."""

    async def follow(
        self: ControllerService, image: MetadataImage, deleted: Any = (), *, or_older: bool = False
    ) -> None:
        await real(self, image, deleted)

    real = ControllerService.follow
    return [(ControllerService, "follow", follow)]


@defect(BACKUP)
def a_new_session_goes_on_with_what_was_shown() -> list[Patch]:
    """After the restore of a backup, brokers wait for the journal entry after the last one that they have seen."""

    async def image_of(self: Membership) -> MetadataImage:
        return await newest(self._store, self._cache.image)

    return [(Membership, "_newest", image_of)]


@defect(
    "pybroker/cluster/tests/test_empty_store.py"
    "::test_a_broker_keeps_a_configuration_that_became_unreadable_while_it_had_no_session"
)
def a_garbled_configuration_is_forgotten_with_the_session() -> list[Patch]:
    """The broker forgets min.insync.replicas too, and acknowledges records that have a single replica."""
    return [(MetadataImage, "with_configs_of", lambda image, known: image)]


@defect("pybroker/handlers/tests/test_metadata.py::test_metadata_shows_a_change_of_a_topic_or_of_the_brokers_at_once")
def metadata_tell_what_was_kept_after_a_topic_has_changed() -> list[Patch]:
    """Clients stay with leaders that are gone."""

    def find(self: DescribedTopics, topic: TopicImage, form: Form) -> EncodedArray | None:
        _, last_form, encoded = self._by_name.get(topic.name, (None, None, None))
        return encoded if last_form == form else None

    return [(DescribedTopics, "find", find)]


@defect("pybroker/handlers/tests/test_metadata.py::test_metadata_shows_a_change_of_a_topic_or_of_the_brokers_at_once")
@defect("pybroker/handlers/tests/test_metadata.py::test_cached_metadata_of_topics_equals_a_fresh_description")
def metadata_tell_what_was_kept_for_other_brokers_or_another_version() -> list[Patch]:
    """Clients read nonsense, or look for a broker that they cannot reach."""

    def find(self: DescribedTopics, topic: TopicImage, form: Form) -> EncodedArray | None:
        partitions, _, encoded = self._by_name.get(topic.name, (None, None, None))
        return encoded if partitions is topic.partitions else None

    return [(DescribedTopics, "find", find)]
