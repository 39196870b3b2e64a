"""The threads that compact: they work on the loop's logs, follow the configuration, and end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from cy.batch import Builder, iterate
from pybroker.clock import SystemClock
from pybroker.config import BrokerConfig
from pybroker.config.log_config import LogConfig
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.compaction.workers import CompactionWorkers
from pybroker.log.files.storage import Storage
from pybroker.log.manager import LogManager
from pybroker.tests.waiting import until_async
from pybroker.topic_partition import TopicPartition
from pyclient.keywords import with_dots

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
TP = TopicPartition("t", 0)


def config_with(**values: str) -> BrokerConfig:
    return BrokerConfig(with_dots(values))


def a_log(root):
    logs = LogManager([str(root)], Storage(), CONFIG, SystemClock(), cluster_id="c", node_id=1)
    logs.load()
    log = logs.get_or_create(TP, bytes(16), CONFIG)
    for value in (b"1", b"2", b"3"):
        builder = Builder()
        builder.append(1, b"key", value)
        log.append_as_leader(bytearray(builder.build()), 0, 1)
    log.update_high_watermark(log.log_end_offset)
    log.roll(1)
    return logs, log


@pytest.fixture
def threads() -> Callable[[], list[str]]:
    """Returns the compaction threads of this test."""
    before = set(threading.enumerate())

    def found() -> list[str]:
        return [each.name for each in set(threading.enumerate()) - before if each.name.startswith("compaction-")]

    return found


def test_a_worker_compacts_a_log_that_is_due(tmp_path, threads):
    async def run() -> None:
        logs, log = a_log(tmp_path)
        workers = CompactionWorkers(
            logs, config_with(log_cleaner_backoff_ms="1"), SystemClock(), asyncio.get_running_loop()
        )
        workers.start()
        await until_async(lambda: log.clean_offset == 3)
        assert [record.value for record in iterate(log.read_bytes(0, 1000))] == [b"3"]
        await workers.stop()
        assert not threads()

    asyncio.run(run())


@pytest.mark.parametrize("values", [{"log_cleaner_enable": "false"}, {"log_cleaner_threads": "0"}])
def test_compaction_may_be_switched_off(tmp_path, values, threads):
    async def run() -> None:
        logs, _ = a_log(tmp_path)
        workers = CompactionWorkers(logs, config_with(**values), SystemClock(), asyncio.get_running_loop())
        workers.start()
        assert not threads()
        await workers.stop()

    asyncio.run(run())


def test_cleaner_threads_and_their_buffer_size_follow_the_configuration(tmp_path, threads):
    async def run() -> None:
        logs, log = a_log(tmp_path)
        config = config_with(log_cleaner_threads="0", log_cleaner_backoff_ms="1")
        workers = CompactionWorkers(logs, config, SystemClock(), asyncio.get_running_loop())
        workers.start()
        config.override({}, {"log.cleaner.threads": "3", "log.cleaner.io.max.bytes.per.second": "1000000"})
        assert len(threads()) == 3
        await until_async(lambda: log.clean_offset == 3)
        config.override({}, {"log.cleaner.threads": "1"})
        await until_async(lambda: len(threads()) == 1)
        await workers.stop()
        config.override({}, {"log.cleaner.threads": "2"})
        assert not threads()

    asyncio.run(run())


def test_a_stop_does_not_wait_for_the_throttle_of_a_compaction(tmp_path, threads, monkeypatch):
    delay, delays = Throttle.delay, []

    def noted(throttle, used_bytes, now_s):
        delays.append(delay(throttle, used_bytes, now_s))
        return delays[-1]

    monkeypatch.setattr(Throttle, "delay", noted)

    async def run() -> None:
        logs, _ = a_log(tmp_path)
        config = config_with(log_cleaner_io_max_bytes_per_second="0.001", log_cleaner_backoff_ms="1")
        workers = CompactionWorkers(logs, config, SystemClock(), asyncio.get_running_loop())
        workers.start()
        await until_async(lambda: any(delay_s > 10 for delay_s in delays))
        await workers.stop()
        assert not threads()

    asyncio.run(run())
