from __future__ import annotations

from pybroker.log.group_commit import GroupCommit
from pyclient.protocol import errors


class Log:
    """A log whose end and synced part are numbers."""

    def __init__(self) -> None:
        self.end = 0
        self.recovery_point = 0
        self.flushes = 0

    def flush(self) -> int:
        self.flushes += 1
        self.recovery_point = self.end
        return self.end


class Pool:
    """Runs one function on command."""

    def __init__(self) -> None:
        self.waiting = []

    def submit(self, work, done):
        self.waiting.append((work, done))

    def run(self, error=None):
        work, done = self.waiting.pop(0)
        if error is None:
            work()
        done(error)


def started():
    log, pool, told = Log(), Pool(), []
    return log, pool, told, GroupCommit(log, pool.submit)


def test_synced_records_need_not_wait():
    log, pool, told, commit = started()
    log.recovery_point = 5
    assert commit.wait(5, told.append)
    assert not pool.waiting
    assert told == []


def test_a_sync_completes_all_earlier_waiters():
    log, pool, told, commit = started()
    log.end = 3
    for offset in (1, 2, 3):
        assert not commit.wait(offset, told.append)
    assert len(pool.waiting) == 1
    pool.run()
    assert told == [None, None, None]
    assert log.flushes == 1
    assert not pool.waiting


def test_only_one_sync_runs_and_later_waiters_get_the_next_one():
    log, pool, told, commit = started()
    log.end = 1
    commit.wait(1, told.append)
    work, done = pool.waiting.pop()
    work()
    log.end = 3
    commit.wait(2, lambda error: told.append("second"))
    commit.wait(3, lambda error: told.append("third"))
    assert not pool.waiting
    done(None)
    assert told == [None]
    assert len(pool.waiting) == 1
    pool.run()
    assert told == [None, "second", "third"]
    assert log.flushes == 2


def test_a_failed_sync_fails_all_waiters():
    log, pool, told, commit = started()
    log.end = 2
    commit.wait(1, told.append)
    commit.wait(2, told.append)
    error = errors.KafkaStorageError("gone")
    pool.run(error)
    assert told == [error, error]
    assert not pool.waiting


def test_a_waiter_may_wait_again_in_its_callback():
    log, pool, told, commit = started()
    log.end = 1

    def again(error):
        log.end = 2
        commit.wait(2, told.append)

    commit.wait(1, again)
    pool.run()
    pool.run()
    assert told == [None]


def test_a_wait_for_truncated_records_ends_with_an_error_and_no_endless_sync():
    log, pool, told, commit = started()
    log.end = 5
    commit.wait(5, told.append)
    log.end = 3
    pool.run()
    assert isinstance(told.pop(), errors.NotLeaderOrFollower)
    assert not pool.waiting
