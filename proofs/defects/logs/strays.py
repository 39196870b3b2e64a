"""Defects that deleted logs without anybody's order."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from proofs.defects import Patch, defect
from proofs.defects.suites import in_histories
from pybroker.cluster import corrections
from pybroker.cluster.controller import ControllerService
from pybroker.cluster.metadata.image import NO_CONFIGS, MetadataDelta, MetadataImage, PartitionImage, TopicImage
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.cluster.nodes import loading
from pybroker.config import topic_config
from pybroker.config.log_config import LogConfig
from pybroker.log.dirs import missing_directories
from pybroker.log.log import Log
from pybroker.log.removal.strays import Stray, Strays
from pybroker.replication import placement
from pybroker.replication.partition_table import PartitionTable
from pybroker.replication.placement import Placement
from pybroker.topic_partition import TopicPartition


@defect("pybroker/cluster/tests/test_missing_topics.py")
@in_histories("restored store", "kept")
def topics_missing_in_an_image_read_again_count_as_deleted() -> list[Patch]:
    """After the restore of a backup, a change of controller deleted the logs on all live brokers."""
    publish = ControllerService._publish

    async def publish_as_deleted(self: ControllerService, delta: MetadataDelta) -> None:
        await publish(self, replace(delta, deleted={**delta.deleted, **delta.missing}, missing={}))

    return [(ControllerService, "_publish", publish_as_deleted)]


@defect("pybroker/replication/tests/test_strays.py")
def logs_of_missing_topics_are_deleted() -> list[Patch]:
    """The broker deletes logs of topics that the metadata do not have."""
    publish = MetadataCache.publish

    async def publish_as_deleted(self: MetadataCache, delta: MetadataDelta) -> None:
        await publish(self, replace(delta, deleted={**delta.deleted, **delta.missing}, missing={}))

    return [(MetadataCache, "publish", publish_as_deleted)]


@defect("pybroker/replication/tests/test_strays.py::test_a_new_topic_begins_empty_beside_the_stray_of_its_name")
@in_histories("restored store", "kept")
def a_new_topic_of_a_name_deletes_the_log_of_the_old_one() -> list[Patch]:
    """After the store was lost, an auto-created topic deleted the log of the old topic of its name."""

    def delete(self: Placement, reasons: dict[Log, str]) -> None:
        self._logs.delete_all(list(reasons))

    return [(Placement, "_set_logs_aside", delete)]


@defect("pybroker/replication/tests/test_strays.py::test_a_new_topic_begins_empty_beside_the_stray_of_its_name")
def a_topic_created_again_is_taken_for_the_earlier_one() -> list[Patch]:
    """The new topic's partitions used the old topic's logs, and the old id found the new topic."""
    return [(MetadataImage, "replaced", lambda self, delta: {})]


@defect("pybroker/replication/tests/test_strays.py")
def replicas_that_an_image_read_again_has_elsewhere_are_deleted() -> list[Patch]:
    """A backup from before a reassignment also lists other brokers."""

    def reason(log: Any, image: MetadataImage, node_id: int) -> str:
        topic = image.topic_by_id(log.topic_id)
        return "" if topic is not None else "its topic is missing"

    return [(placement, "reason_to_leave", reason)]


@defect("pybroker/replication/tests/test_strays.py::test_a_topic_that_is_there_again_has_its_log_again")
def a_topic_that_is_there_again_begins_anew() -> list[Patch]:
    """The old log lay unused beside the new one."""
    return [(Strays, "of", lambda self, topic_partition, topic_id: None)]


@defect("pybroker/replication/tests/test_strays.py::test_strays_are_not_under_retention")
def logs_are_under_the_default_retention_until_their_topic_is_known() -> list[Patch]:
    """Retention deleted logs of unknown topics after a week."""
    return [(LogConfig, "keeping_everything", lambda self: self)]


@defect("pybroker/cluster/nodes/tests/test_unreadable_configs.py::test_a_new_broker_deletes_nothing_without_a_readable_configuration")
def a_configuration_that_cannot_be_read_is_an_empty_one() -> list[Patch]:
    """The topic got the default retention."""
    return [(loading, "_UNREADABLE", {}), (loading, "MISSING_CONFIGS", NO_CONFIGS)]


@defect("pybroker/cluster/nodes/tests/test_unreadable_configs.py")
def a_retention_without_meaning_is_the_default_one() -> list[Patch]:
    """A person had set the topic's retention in the store to a value without meaning."""
    return [(sys.modules[topic_config.__module__], "_DELETING", ())]


@defect("pybroker/cluster/nodes/tests/test_unreadable_configs.py::test_a_correction_takes_no_replica_and_no_partition_away")
def a_correction_takes_replicas_away() -> list[Patch]:
    """Brokers concluded that their replicas had moved, and removed the logs."""
    return [(corrections, "_keeps_all", lambda old, stored: len(old.partitions) <= len(stored.partitions))]


@defect("pybroker/cluster/tests/test_corrections.py::test_a_correction_never_gives_two_leaders_the_same_leader_epoch")
def a_correction_takes_another_leader_in_the_same_epoch() -> list[Patch]:
    """A larger partition epoch was enough, so two replicas could lead in one epoch."""

    def newer(stored: PartitionImage, old: PartitionImage) -> PartitionImage:
        if (stored.leader_epoch, stored.partition_epoch) > (old.leader_epoch, old.partition_epoch) or stored == old:
            return stored
        leader_epoch = max(stored.leader_epoch, old.leader_epoch) + 1
        return replace(stored, leader_epoch=leader_epoch, partition_epoch=stored.partition_epoch + 1)

    return [(corrections, "_newer", newer)]


@defect("pybroker/cluster/tests/test_missing_topics.py::test_an_isr_change_succeeds_though_another_in_the_request_fails")
def one_topic_that_differs_stops_the_changes_of_all() -> list[Patch]:
    """One missing node blocked all elections of the cluster."""
    return [(ControllerService, "_change_or_plan_again", ControllerService._change)]


@defect("pybroker/cluster/tests/test_missing_topics.py::test_a_new_controller_elects_leaders_if_a_topic_is_incomplete")
def no_term_begins_while_a_topic_differs() -> list[Patch]:
    """The store refused each write, and the controller read everything again."""
    return [(ControllerService, "_freeze", lambda self, names: None)]


@defect("pybroker/tests/several_brokers/test_missing_directory.py")
@in_histories("unmounted disks", "kept")
def a_mount_point_without_its_disk_is_a_new_log_dir() -> list[Patch]:
    """The partitions that the disk held started again at offset 0."""
    return [(missing_directories, "compare", lambda known, found, given_up: missing_directories.Directories())]


@defect("pybroker/tests/several_brokers/test_missing_directory.py::test_partitions_of_a_missing_disk_are_offline_until_it_is_back")
def a_replica_that_waits_for_its_disk_is_made_anew_when_the_metadata_change() -> list[Patch]:
    """The offline disk caused an election. After that change of metadata, the broker made a new, empty log for the
    replica.
    """
    must_wait = PartitionTable.must_wait

    def at_the_start(self: PartitionTable, topic: TopicImage, image: PartitionImage, *, is_start: bool) -> bool:
        return is_start and must_wait(self, topic, image, is_start=True)

    return [(PartitionTable, "must_wait", at_the_start)]


@defect("pybroker/cli/log/tests/test_strays.py::test_strays_are_removed_only_with_execute")
def logs_without_a_topic_are_deleted_at_the_start() -> list[Patch]:
    """The loss of the store deleted the logs."""

    def delete(self: Placement, reasons: dict[Log, str]) -> None:
        self._logs.delete_all(list(reasons))

    return [(Placement, "_set_logs_aside", delete)]


@defect("pybroker/log/removal/tests/test_strays.py::test_a_stray_is_found_while_another_thread_takes_one_back")
def strays_are_looked_through_while_they_change() -> list[Patch]:
    """The scan missed a stray, and a new log began beside it."""

    def of(self: Strays, topic_partition: TopicPartition, topic_id: bytes) -> Stray | None:
        found = self._found.get((topic_id, topic_partition), ())
        online = (each for each in found if not each.log_dir.offline and self._storage.exists(each.folder))
        return max(online, key=lambda stray: stray.note.since_ms, default=None)

    return [(Strays, "of", of)]


@defect("pybroker/log/removal/tests/test_strays.py::test_two_threads_that_take_a_stray_back_fail_no_log_dir")
def a_stray_may_be_taken_back_twice() -> list[Patch]:
    """The second rename found no folder, which counted as a failure of the disk."""

    def remove(self: Strays, stray: Stray) -> bool:
        found = self._found[stray.topic_id, stray.note.topic_partition]
        found[:] = [each for each in found if each is not stray]
        return True

    return [(Strays, "_remove", remove)]
