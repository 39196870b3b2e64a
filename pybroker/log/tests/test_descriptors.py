"""A process without descriptors refuses requests; its disks have not failed."""

from __future__ import annotations

import errno

import pytest

from pybroker.log.config import LogConfig
from pybroker.log.tests.helpers import NOW, batch, contents, open_log
from pybroker.testing.faulty_storage import FaultyStorage
from pyclient.protocol import errors


def fill_up(log):
    """Appends until a segment is full."""
    for _ in range(20):
        log.append_as_leader(batch(b"y" * 100), 0, NOW)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("failing", [".log", "index", "snapshot"])
def test_a_roll_without_descriptors_refuses_the_append_and_the_next_one_is_good(tmp_path, failing, number):
    storage = FaultyStorage()
    log = open_log(tmp_path, LogConfig(segment_bytes=1024), storage=storage)
    for index in range(5):
        log.append_as_leader(batch(b"%d" % index * 100), 0, NOW)
    log.release()
    storage.fail("open", number, lambda path: failing in path)
    with pytest.raises(errors.KafkaStorageError):
        fill_up(log)
    assert not log.log_dir.offline
    end = log.log_end_offset
    storage.heal()
    for _ in range(20):
        log.append_as_leader(batch(b"x" * 100), 0, NOW)
    assert [offset for offset, _ in contents(log)] == list(range(end + 20))
    log.close()
    assert len(contents(open_log(tmp_path))) == end + 20


def test_a_read_without_descriptors_is_refused_and_the_next_one_is_good(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    log.append_as_leader(batch(b"a"), 0, NOW)
    log.update_high_watermark(1)
    log.release()
    storage.fail("open", errno.EMFILE)
    with pytest.raises(errors.KafkaStorageError):
        log.read(0, 1000)
    storage.heal()
    assert log.read(0, 1000).size
    assert not log.log_dir.offline


def test_a_disk_that_fails_is_offline_as_ever(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    log.append_as_leader(batch(b"a"), 0, NOW)
    log.release()
    storage.fail("open", errno.EIO)
    with pytest.raises(errors.KafkaStorageError):
        log.append_as_leader(batch(b"b"), 0, NOW)
    assert log.log_dir.offline
