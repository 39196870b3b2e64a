"""The broker in this process: what exists after ``start``, and what remains after ``stop``."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvloop

from cy.wire.wire_types import EncodedArray, Int32
from pybroker import data_folder
from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata.image import MetadataDelta
from pybroker.config import BrokerConfig
from pybroker.handlers.common.described import Form
from pybroker.log.files.file_cache import FileCache
from pybroker.net import limits
from pybroker.server import Broker, StartError
from pybroker.tests.waiting import PATIENCE_S, until_async


def in_loop(test: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())  # type: ignore[arg-type]


def make(path: Path, **settings: object) -> Broker:
    given = {"node.id": 1, "listeners": "PLAINTEXT://127.0.0.1:0"}
    config = BrokerConfig({**given, **settings})  # type: ignore[arg-type]
    folder = data_folder.plan(str(path), 1, config.log_dirs)
    folder.create()
    return Broker(config, folder)


def descriptors() -> set[tuple[str, str]]:
    """What this process has open, each by its number."""
    gc.collect()  # what other tests have left is closed before, and not meanwhile
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the folder itself
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


def test_start_and_stop_leave_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path)
        await broker.start()
        [(host, port)] = broker.addresses()
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
        await broker.stop()

    in_loop(scenario)
    before, threads = descriptors(), set(threading.enumerate())
    in_loop(scenario)
    assert descriptors() <= before
    for thread in set(threading.enumerate()) - threads:
        thread.join(PATIENCE_S)  # it was told to end
        assert not thread.is_alive()


def test_logs_use_descriptors_until_connections_need_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lent: list[int] = []
    monkeypatch.setattr(FileCache, "lend", lambda cache, more: lent.append(more))
    monkeypatch.setattr(limits, "descriptors_for_connections", lambda: 1000)

    async def scenario() -> None:
        broker = make(tmp_path)
        await broker.start()
        [(host, port)] = broker.addresses()
        for _ in range(4):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
        await until_async(lambda: len(lent) == 1 + 2 * 4)
        await broker.stop()

    in_loop(scenario)
    assert min(lent) < max(lent) == lent[0] == lent[-1] == 750


def test_a_start_that_fails_can_be_stopped(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = make(tmp_path / "one")
        await first.start()
        [(_, port)] = first.addresses()
        second = make(tmp_path / "two", listeners=f"PLAINTEXT://127.0.0.1:{port}")
        with pytest.raises(StartError, match=f"port {port}"):
            await second.start()
        await second.stop()
        await first.stop()

    in_loop(scenario)


def test_clients_get_the_address_that_they_used(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path)
        await broker.start()
        connection = SimpleNamespace(listener_name="PLAINTEXT", local_address=("10.1.2.3", 5))
        assert broker.endpoint_for(connection) == {1: ("10.1.2.3", 5)}  # type: ignore[arg-type]
        await broker.stop()

    in_loop(scenario)


def test_all_clients_get_the_advertised_listeners(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path, **{"advertised.listeners": "PLAINTEXT://kafka.example:77"})
        await broker.start()
        connection = SimpleNamespace(listener_name="PLAINTEXT", local_address=("10.1.2.3", 5))
        assert broker.endpoint_for(connection) == {1: ("kafka.example", 77)}  # type: ignore[arg-type]
        assert broker.addresses() == [("kafka.example", 77)]
        await broker.stop()

    in_loop(scenario)


def test_several_listeners_serve_side_by_side(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(
            tmp_path,
            **{
                "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.2:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
            },
        )
        await broker.start()
        for listener in broker.net.listening:
            _, writer = await asyncio.open_connection(listener.host, listener.port)
            writer.close()
        names = [listener.listener for listener in broker.net.listening]
        assert names == ["PLAINTEXT", "INSIDE"]
        await broker.stop()

    in_loop(scenario)


def test_the_limits_of_connections_change_while_it_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path)
        await broker.start()
        broker.config.override({}, {"max.connections.per.ip": "7"})
        assert broker.net.limits.max_per_ip == 7
        broker.config.override({}, {"max.connections.per.ip.overrides": "nonsense"})
        assert broker.net.limits.max_per_ip == 7
        broker.config.override({"listener.name.plaintext.max.connections": "5"}, {})
        assert broker.net.limits.of_listener("PLAINTEXT") == 5
        await broker.stop()

    in_loop(scenario)


def test_a_broker_keeps_no_description_of_a_deleted_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path)
        await broker.start()
        await broker.controller.create_topics([NewTopic("t", 1, 1)])
        topic, form = broker.metadata.image.topics["t"], Form(frozenset({1}), 9)
        broker.described.keep(topic, form, EncodedArray(Int32()))
        assert broker.described.find(topic, form) is not None
        await broker.metadata.publish(MetadataDelta(deleted={"t": topic}))
        assert broker.described.find(topic, form) is None
        await broker.stop()

    in_loop(scenario)


def test_case_11_a_broker_without_a_log_dir_stops(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path)
        await broker.start()
        assert not broker.failed.is_set()
        broker.logs.dirs[0].fail(OSError(5, "Input/output error"), "testing")
        async with asyncio.timeout(PATIENCE_S):
            await broker.failed.wait()
        await broker.stop()

    in_loop(scenario)


def test_case_22_a_broker_does_not_show_the_epoch_of_another_one_of_its_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path)
        await broker.start()
        own = broker.node.broker_epoch
        assert broker._broker_epoch() == own
        other = broker.metadata.image.brokers[broker.node_id]._replace(epoch=own + 1)
        table = broker.replicas.partitions
        table.image = table.image.apply(MetadataDelta(brokers={broker.node_id: other}))
        assert broker._broker_epoch() == -1
        broker.node.on_failure()
        assert broker.failed.is_set()
        await broker.stop()

    in_loop(scenario)
