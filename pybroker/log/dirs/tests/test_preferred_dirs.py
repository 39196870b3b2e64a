from __future__ import annotations

from pybroker.log.dirs.preferred_dirs import LASTING_MS, MOST, PreferredDirs
from pybroker.topic_partition import TopicPartition

TP = TopicPartition("t", 0)


def test_a_preferred_dir_is_returned_once() -> None:
    dirs = PreferredDirs()
    dirs.remember(TP, "/a", 0)
    dirs.remember(TP, "/b", 0)
    assert dirs.take(TP, 1) == "/b"
    assert dirs.take(TP, 1) is None


def test_the_preferred_dirs_that_clients_request_are_limited() -> None:
    dirs = PreferredDirs()
    for number in range(3 * MOST):
        dirs.remember(TopicPartition("t", number), "/a", number % 7)
    assert len(dirs) == MOST
    assert dirs.take(TopicPartition("t", 3 * MOST - 1), 0) == "/a"
    assert dirs.take(TP, 0) is None


def test_a_preferred_dir_is_remembered_for_an_hour() -> None:
    dirs = PreferredDirs()
    dirs.remember(TP, "/a", 0)
    assert dirs.take(TP, LASTING_MS) is None
    assert len(dirs) == 0


def test_a_preferred_dir_for_an_impossible_topic_name_is_not_remembered() -> None:
    dirs = PreferredDirs()
    dirs.remember(TopicPartition("x" * 30_000, 0), "/a", 0)
    assert len(dirs) == 0
