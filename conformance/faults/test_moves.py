"""Moves a replica between log dirs under load again and again, and kills the broker at random points.

Acknowledged records are there afterwards, once and in order. The test prints the seed of its moments;
``PYBROKER_SEED=…`` repeats them.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.conftest import NewBroker
from conformance.data import batches
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

pytestmark = pytest.mark.nightly
TOPIC = "moved"
FOLDER = f"{TOPIC}-0"
SEGMENTS = {"segment.bytes": 4_000, "segment.index.bytes": 80}
BACKLOG = 150
"""The number of batches before the first move. A segment has a few of them."""
VALUE = b"%d " + b"x" * 500


class Writer:
    """Writes numbers one after the other, each in its own batch; ``acked`` ends with the last acknowledged one.

    A record that was not acknowledged may be there or not, so the next number is another one.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acked: list[int] = []
        self._number = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def await_more(self) -> None:
        """Waits until one more is acknowledged."""
        before = len(self.acked)
        until(lambda: len(self.acked) > before, "the writer to go on")

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError), Wire(self._broker.address, 20) as wire:
                while not self._over.is_set() and self._write(wire):
                    pass
            self._over.wait(0.02)

    def _write(self, wire: Wire) -> bool:
        self._number += 1
        row = wire.produce(TOPIC, batches.batch([VALUE % self._number]), acks=-1)
        if row.error_code == 0:
            self.acked.append(self._number)
        return bool(row.error_code == 0)


class Mover:
    """Moves the replica from dir to dir, and kills the broker meanwhile."""

    def __init__(self, broker: Broker, dirs: tuple[Path, Path], seed: int) -> None:
        self._broker = broker
        self._dirs = dirs
        self._random = random.Random(seed)
        self.moved = 0

    def round(self) -> None:
        """Moves, kills and starts once; sometimes kills a second time during the start."""
        target = self._other()
        with Wire(self._broker.address) as wire:
            rows = [{"path": str(target), "topics": [{"name": TOPIC, "partitions": [0]}]}]
            reply = wire.ask("AlterReplicaLogDirs", 1, dirs=rows)
            assert reply.results[0].partitions[0].error_code == 0
        self._await_a_moment(target)
        self._broker.kill()
        if self._random.random() < 0.25:
            self._broker.start(wait=False)
            time.sleep(self._random.random() * 0.5)
            self._broker.kill()
        self._broker.start()
        self.moved += self._other() != target

    def _other(self) -> Path:
        return next(path for path in self._dirs if not (path / FOLDER).exists())

    def _await_a_moment(self, target: Path) -> None:
        """Waits for nothing, for the copy, until both dirs have the name, or until the old folder has lost it."""
        source = next(path for path in self._dirs if path != target)

        def is_copied() -> bool:
            return any(target.glob(f"{FOLDER}.*-future/*"))

        def has_switched() -> bool:
            return (target / FOLDER).exists()

        def is_over() -> bool:
            return has_switched() and not (source / FOLDER).exists()

        moments: tuple[Callable[[], bool], ...] = (lambda: True, is_copied, has_switched, is_over)
        moment = self._random.choice(moments)
        deadline = time.monotonic() + 10
        while not moment() and not is_over() and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(self._random.choice((0, 0.002, 0.02, 0.1)) * self._random.random())


def values(broker: Broker) -> list[int]:
    """Returns all numbers in the log, in the order of their offsets."""
    found: list[int] = []
    offset = 0
    with Wire(broker.address) as wire:
        end = wire.end_offset(TOPIC)
        while offset < end:
            data = wire.fetch(TOPIC, offset, partition_max_bytes=1 << 20).records
            assert all(header.crc_is_right for header in batches.headers(data))
            found += [int(value.split()[0]) for value in batches.values(data) if value is not None]
            assert len(found) > offset, f"nothing at offset {offset} of {end}"
            offset = len(found)
    return found


def backlog(broker: Broker, writer: Writer) -> None:
    broker.start()
    with Wire(broker.address) as wire:
        wire.create_topic(TOPIC, configs=SEGMENTS)
    writer.start()
    until(lambda: len(writer.acked) >= BACKLOG, "the backlog")


@pytest.mark.ours
@pytest.mark.parametrize("order", ["first to second", "second to first"])
@pytest.mark.parametrize("rounds", [2, pytest.param(60, marks=[pytest.mark.campaign, pytest.mark.timeout(3_600)])])
def test_a_replica_that_moves_between_log_dirs_survives_kills_without_loss(
    new_broker: NewBroker, tmp_path: Path, rounds: int, order: str
) -> None:
    seed = int(os.environ.get("PYBROKER_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"PYBROKER_SEED={seed}")
    dirs = tmp_path / "a", tmp_path / "b"
    names = dirs if order == "first to second" else dirs[::-1]
    broker = new_broker(start=False, log_dirs=",".join(map(str, names)), offsets_topic_num_partitions=1)
    writer, mover = Writer(broker), Mover(broker, dirs, seed)
    backlog(broker, writer)
    for _ in range(rounds):
        mover.round()
        writer.await_more()
    writer.stop()
    found = values(broker)
    assert sorted(set(writer.acked) - set(found)) == []
    assert found == sorted(set(found)), "each once, in order"
    assert mover.moved > 0 or rounds < 10
    assert sum((path / FOLDER).exists() for path in dirs) == 1
    left = [name for path in dirs for name in os.listdir(path) if name.startswith(FOLDER) and name.endswith("-stray")]
    assert left == [], "both folders of a move are of one history"
