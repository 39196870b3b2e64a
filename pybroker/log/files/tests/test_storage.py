from __future__ import annotations

import os

import pytest

from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.storage import SMALL_FILE_BYTES, Storage
from pybroker.log.segment.trust import Trust


class Holder:
    def __init__(self) -> None:
        self.recently_used = False
        self.is_open = True

    def release(self) -> None:
        self.is_open = False


def test_an_open_file_stays_open_while_it_is_referenced(tmp_path):
    file = Storage().open(str(tmp_path / "x"), create=True)
    file.write(b"hello", 3)
    fd = file.fileno()
    os.unlink(tmp_path / "x")
    assert file.read(100, 0) == b"\0\0\0hello"
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_writes_by_other_programs_are_noticed_once_and_those_of_the_broker_are_not(tmp_path):
    path = tmp_path / "x"
    file = Storage().open(str(path), create=True)
    file.write(b"hello", 0)
    assert not file.changed_by_others()
    os.utime(path, ns=(2**62, 2**62))
    assert file.changed_by_others()
    assert not file.changed_by_others()


@pytest.mark.parametrize("size", [0, 1, SMALL_FILE_BYTES, SMALL_FILE_BYTES + 1, 100_000])
def test_mapped_files_read_the_same_whatever_their_size(tmp_path, size):
    data = os.urandom(size)
    (tmp_path / "x").write_bytes(data)
    assert bytes(Storage().map(str(tmp_path / "x"))) == data


def test_the_cache_closes_the_least_recently_used_files_first():
    cache = FileCache(2)
    first, second, third = Holder(), Holder(), Holder()
    for holder in (first, second):
        cache.admit(holder)
    second.recently_used = False
    cache.admit(third)
    assert [holder.is_open for holder in (first, second, third)] == [True, False, True]
    assert len(cache) == 2
    cache.forget(first)
    assert len(cache) == 1


def test_the_cache_closes_files_at_once_when_lent_descriptors_are_taken_back():
    cache = FileCache(2)
    cache.lend(2)
    holders = [Holder() for _ in range(5)]
    for holder in holders:
        cache.admit(holder)
    assert len(cache) == 4
    cache.lend(1)
    assert len(cache) == 3
    cache.lend(0)
    assert len(cache) == sum(holder.is_open for holder in holders) == 2


def test_appended_or_checked_bytes_are_trusted_until_the_trust_is_withdrawn():
    trust = Trust(100)
    assert trust.covers(100, 200)
    assert not trust.covers(50, 150)
    trust.add(50, 100)
    assert trust.covers(60, 100)
    trust.cut(80)
    assert trust.covers(80, 90)
    assert not trust.covers(60, 70)
    trust.lose(90)
    assert not trust.covers(80, 90)
    assert trust.covers(90, 95)
