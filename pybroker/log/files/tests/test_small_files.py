from __future__ import annotations

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.log.files import checkpoints, leader_epochs, meta_properties, partition_metadata
from pybroker.log.files.leader_epochs import EpochEnd, EpochEntry, LeaderEpochs
from pybroker.log.files.storage import Storage
from pybroker.topic_partition import TopicPartition


def test_checkpoint_has_version_count_and_a_line_per_partition(tmp_path):
    path = str(tmp_path / checkpoints.RECOVERY_POINT)
    offsets = {TopicPartition("a-b", 0): 5, TopicPartition("c", 12): 1 << 40}
    checkpoints.write_offsets(Storage(), path, offsets)
    assert (tmp_path / checkpoints.RECOVERY_POINT).read_text() == f"0\n2\na-b 0 5\nc 12 {1 << 40}\n"
    assert checkpoints.read_offsets(Storage(), path) == offsets


@pytest.mark.parametrize("text", ["", "0\n", "1\n0\n", "0\n2\na 0 5\n", "0\n1\na 0\n", "0\n1\na x 5\n", "\xff"])
def test_malformed_checkpoint_counts_as_absent(tmp_path, text):
    (tmp_path / "x").write_bytes(text.encode("latin-1"))
    assert checkpoints.read_offsets(Storage(), str(tmp_path / "x")) == {}


def test_case_4_checkpoint_is_replaced_whole_or_not_at_all(tmp_path):
    storage = FaultyStorage()
    path = str(tmp_path / "checkpoint")
    checkpoints.write_offsets(storage, path, {TopicPartition("a", 0): 1})
    for kind in ("write", "sync", "rename"):
        storage.fail(kind)
        with pytest.raises(OSError, match="Input/output"):
            checkpoints.write_offsets(storage, path, {TopicPartition("a", 0): 2})
        storage.heal()
        assert checkpoints.read_offsets(storage, path) == {TopicPartition("a", 0): 1}
    storage.calls.clear()
    checkpoints.write_offsets(storage, path, {TopicPartition("a", 0): 2})
    assert [kind for kind, _ in storage.calls] == [
        "open", "truncate", "write", "sync", "rename", "sync_folder"
    ]  # fmt: skip


def test_topic_id_is_written_as_unpadded_url_safe_base64(tmp_path):
    partition_metadata.write(Storage(), str(tmp_path), b"\xff" * 16)
    text = (tmp_path / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: " + "_" * 21 + "w\n"
    assert partition_metadata.read(Storage(), str(tmp_path)) == b"\xff" * 16


@pytest.mark.parametrize("text", ["", "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n", "version: 0\ntopic_id: A\n"])
def test_unreadable_topic_id_is_unknown(tmp_path, text):
    (tmp_path / "partition.metadata").write_text(text)
    assert partition_metadata.read(Storage(), str(tmp_path)) == partition_metadata.ZERO_ID


def test_a_log_dir_gets_its_directory_id_once_and_keeps_it(tmp_path):
    first = meta_properties.claim(Storage(), str(tmp_path), "Qm9", 1)
    assert len(first.directory_id) == 22
    assert meta_properties.claim(Storage(), str(tmp_path), "Qm9", 1) == first
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    assert {"version=1", "cluster.id=Qm9", "node.id=1"} < set(lines)


@pytest.mark.parametrize(
    ("cluster", "node", "text"),
    [("aXk", 1, "cluster Qm9, this is aXk"), ("Qm9", 2, "node 1, this is 2")],
)
def test_the_log_dir_of_another_broker_is_refused_with_a_remedy(tmp_path, cluster, node, text):
    meta_properties.claim(Storage(), str(tmp_path), "Qm9", 1)
    with pytest.raises(meta_properties.WrongOwner, match=text):
        meta_properties.claim(Storage(), str(tmp_path), cluster, node)


@pytest.fixture
def epochs():
    history = LeaderEpochs()
    for epoch, start in ((0, 0), (2, 10), (5, 30)):
        history.assign(epoch, start)
    return history


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (0, 10)),
        (2, (2, 30)),
        (4, (2, 30)),
        (5, (5, 44)),
        (6, (-1, -1)),
    ],
)
def test_epoch_ends_where_the_next_known_one_begins(epochs, asked, answer):
    assert epochs.end_offset_for(asked, 44) == EpochEnd(*answer)


def test_an_epoch_before_the_first_known_one_ends_at_its_start():
    assert LeaderEpochs([EpochEntry(3, 7)]).end_offset_for(1, 44) == EpochEnd(1, 7)


def test_known_and_older_epochs_change_nothing(epochs):
    before = epochs.entries
    epochs.assign(5, 40)
    epochs.assign(1, 40)
    assert epochs.entries == before


def test_an_epoch_in_which_nothing_was_written_is_replaced(epochs):
    epochs.assign(6, 30)
    assert epochs.entries == [(0, 0), (2, 10), (6, 30)]


def test_epochs_are_truncated_with_the_log(epochs):
    epochs.truncate_from_end(30)
    assert epochs.entries == [(0, 0), (2, 10)]
    assert epochs.latest == 2
    epochs.truncate_from_start(15)
    assert epochs.entries == [(2, 15)]
    assert epochs.epoch_for(14) == -1
    assert epochs.epoch_for(16) == 2


def test_epoch_file_is_read_back(epochs):
    assert epochs.encode() == b"0\n3\n0 0\n2 10\n5 30\n"
    assert leader_epochs.decode(epochs.encode()) == epochs.entries


def test_a_torn_epoch_file_is_noticed_wherever_it_ends():
    whole = LeaderEpochs([EpochEntry(0, 0), EpochEntry(2, 15)]).encode()
    for length in range(len(whole)):
        with pytest.raises(ValueError):  # noqa: PT011
            leader_epochs.decode(whole[:length])


@pytest.mark.parametrize("text", [b"", b"0\n1\n", b"0\n2\n1 5\n0 6\n", b"0\n2\n1 5\n2 4\n"])
def test_malformed_epoch_file_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011
        leader_epochs.decode(text)
