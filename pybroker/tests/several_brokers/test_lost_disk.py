"""Case 11: a log dir fails on one of several brokers; others become leaders of its partitions."""

from __future__ import annotations

from pathlib import Path

from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.several_brokers.test_replication import append, create, follows, has_led, members, read_all


def test_case_11_leaders_move_from_a_log_dir_that_failed(tmp_path: Path) -> None:
    dirs = f"{tmp_path}/disk-a,{tmp_path}/disk-b"

    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first = await cluster.start(1, log_dirs=dirs)
            second = await cluster.start(2)
            await cluster.until(lambda: 2 in first.metadata.image.brokers)
            await create(first, 1, 2, topic="t")
            await create(first, 1, 2, topic="u")
            await cluster.until(lambda: has_led(first) and has_led(first, "u"))
            await append(first, b"a")
            await append(first, b"b", topic="u")
            failed = first.replicas.find("t", 0).log.log_dir
            failed.fail(OSError(5, "Input/output error"), "test")
            await cluster.until(lambda: has_led(second))
            assert has_led(first, "u")
            assert read_all(second) == [b"a"]
            assert second.metadata.image.topics["t"].partitions[0].isr == (2,)
            await append(second, b"c")
            assert members(first, "u") == {1, 2}

    in_loop(scenario)


def test_case_11_a_broker_that_loses_its_only_log_dir_is_not_trusted_when_it_is_back(tmp_path: Path) -> None:
    """A failed sync may drop written data, and the next process finds a log that looks complete."""

    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, second = await cluster.start(1), await cluster.start(2)
            await cluster.until(lambda: 2 in first.metadata.image.brokers)
            await create(first, 1, 2, min_insync_replicas="2")
            await cluster.until(lambda: has_led(first) and follows(second, 1))
            second.replicas.find("t", 0).log.log_dir.fail(OSError(5, "Input/output error"), "test")
            await second.failed.wait()
            await cluster.stop(2)
            await cluster.until(lambda: members(first) == {1})
            assert first.metadata.image.topics["t"].partitions[0].elr == ()

    in_loop(scenario)
