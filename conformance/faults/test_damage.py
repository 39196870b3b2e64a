"""Damages files as a crash or bit rot does: cases 1, 2, 4, 6 to 10. The broker serves no damaged record and loses no
intact one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.conftest import NewBroker
from conformance.faults.means.damage import BATCHES, COUNT, PER_BATCH, WrittenLog, value_at
from harness.protocol.error_codes import CORRUPT_MESSAGE
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker

pytestmark = [pytest.mark.ours, pytest.mark.nightly]


@pytest.fixture
def broker(new_broker: NewBroker) -> Broker:
    return new_broker()


def down(broker: Broker, how: str) -> None:
    broker.kill() if how == "kill" else broker.stop()


def test_case_1_a_torn_tail_of_any_length_is_truncated(broker: Broker) -> None:
    lengths = (1, 7, 8, 11, 12, 16, 17, 60, 61, 62, 90, -1)
    logs = {length: WrittenLog.write(broker, f"torn{length}") for length in lengths}
    broker.kill()
    for length, log in logs.items():
        with log.files(".log")[-1].open("ab") as file:
            file.write(log.batch(BATCHES)[:length])
    broker.start()
    for log in logs.values():
        log.check_served()
        log.check_goes_on()


@pytest.mark.parametrize(
    "tail", [b"\0" * 4096, b"\xff" * 100, os.urandom(5000), b"\0"], ids=["zeros", "ones", "noise", "byte"]
)
def test_case_1_garbage_after_the_last_batch_is_truncated(broker: Broker, tail: bytes) -> None:
    log = WrittenLog.write(broker, "t")
    broker.kill()
    with log.files(".log")[-1].open("ab") as file:
        file.write(tail)
    broker.start()
    log.check_served()
    log.check_goes_on()


#: The sizes in bytes of a batch header and of the records behind it.
PLACES = {
    "base offset": 7,
    "length": 11,
    "magic": 16,
    "crc": 18,
    "attributes": 22,
    "last delta": 26,
    "count": 60,
    "record": 70,
    "end": -1,
}


def test_case_6_a_corrupt_last_batch_in_the_unflushed_tail_is_truncated(broker: Broker) -> None:
    logs = {place: WrittenLog.write(broker, name.replace(" ", "-")) for name, place in PLACES.items()}
    broker.kill()
    for place, log in logs.items():
        log.flip(BATCHES - 1, place)
    broker.start()
    for log in logs.values():
        log.check_served(COUNT - PER_BATCH)
        log.check_goes_on(COUNT - PER_BATCH)


def test_case_7_a_corrupt_batch_in_the_middle_is_never_served_or_silently_deleted(broker: Broker) -> None:
    """After a crash, the broker does not trust the bytes: it ends the log before the damage and sets the rest aside."""
    logs = {place: WrittenLog.write(broker, name.replace(" ", "-")) for name, place in PLACES.items()}
    broker.kill()
    sizes = {}
    for place, log in logs.items():
        log.flip(15, place)
        sizes[place] = sum(path.stat().st_size for path in log.files(".log"))
    broker.start()
    for place, log in logs.items():
        log.check_served(15 * PER_BATCH)
        kept = sum(path.stat().st_size for path in log.folder.glob("*.log*"))
        assert kept >= sizes[place], f"{log.topic}: bytes behind the damage are gone"
        log.check_goes_on(15 * PER_BATCH)


def test_case_8_a_corrupt_flushed_batch_returns_corrupt_message_and_the_rest_is_served(broker: Broker) -> None:
    logs = {place: WrittenLog.write(broker, name.replace(" ", "-")) for name, place in PLACES.items()}
    broker.stop()
    for place, log in logs.items():
        log.flip(15, place)
    broker.start()
    bad = {15 * PER_BATCH, 15 * PER_BATCH + 1}
    for log in logs.values():
        with Wire(broker.address) as wire:
            row = wire.fetch(log.topic, 15 * PER_BATCH)
            assert row.error_code == CORRUPT_MESSAGE or not row.records, log.topic
        found = log.served()
        assert all(value == value_at(offset) for offset, value in found.items()), log.topic
        assert not bad & found.keys(), log.topic
        assert set(range(15 * PER_BATCH)) <= found.keys(), log.topic
        assert set(range(20 * PER_BATCH, COUNT)) <= found.keys(), f"{log.topic}: later segments are whole"
        log.check_goes_on()


def test_case_8_a_record_corrupted_while_the_broker_runs_is_not_served(broker: Broker) -> None:
    log = WrittenLog.write(broker, "t")
    log.check_served()
    log.flip(15, 70)
    found = log.served()
    assert not {30, 31} & found.keys()
    assert all(value == value_at(offset) for offset, value in found.items())


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


def noise(path: Path) -> None:
    path.write_bytes(os.urandom(max(80, path.stat().st_size)))


def half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 - 1])


def shifted(path: Path) -> None:
    path.write_bytes(b"\0\0\0\1" + path.read_bytes()[:-4])


DAMAGE: tuple[Callable[[Path], None], ...] = (missing, empty, zeros, noise, half, shifted)
DISPOSABLE = {
    "index": ".index",
    "timeindex": ".timeindex",
    "snapshot": ".snapshot",
    "epochs": "leader-epoch-checkpoint",
}


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_cases_2_and_10_files_that_can_be_rebuilt_are_never_trusted(broker: Broker, how: str) -> None:
    """The test damages indexes, producer snapshots and epoch files in every way; the broker finds all data as before.
    """
    damaged = {
        WrittenLog.write(broker, f"{kind}-{harm.__name__}"): (suffix, harm)
        for kind, suffix in DISPOSABLE.items()
        for harm in DAMAGE
    }
    time.sleep(0.1)
    down(broker, how)
    for log, (suffix, harm) in damaged.items():
        for path in log.files(suffix):
            harm(path)
    broker.start()
    for log in damaged:
        log.check_served()
        log.check_lookups()
        log.check_goes_on()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_case_2_indexes_without_a_log_are_deleted(broker: Broker, how: str) -> None:
    log = WrittenLog.write(broker, "t")
    down(broker, how)
    orphans = [log.folder / f"{5_000:020}{suffix}" for suffix in (".index", ".timeindex", ".txnindex")]
    for path in orphans:
        path.write_bytes(bytes(24))
    broker.start()
    log.check_served()
    if how == "kill":
        assert not any(path.exists() for path in orphans)


@pytest.mark.parametrize("harm", [missing, empty, noise, half])
def test_cases_4_and_9_checkpoints_beyond_the_log_are_not_trusted(
    broker: Broker, harm: Callable[[Path], None]
) -> None:
    log = WrittenLog.write(broker, "t")
    broker.restart()
    broker.kill()
    for path in broker.log_dir.glob("*-checkpoint"):
        harm(path)
    broker.start()
    log.check_served()
    log.check_goes_on()


def test_case_9_a_recovery_point_beyond_the_end_is_clamped(broker: Broker) -> None:
    log = WrittenLog.write(broker, "t")
    broker.restart()
    broker.kill()
    path = broker.log_dir / "recovery-point-offset-checkpoint"
    path.write_text(path.read_text().replace(f"t 0 {COUNT}\n", "t 0 5000000\n"))
    broker.start()
    log.check_served()
    log.check_goes_on()


def test_case_5_a_kill_during_recovery_repeats_it_at_the_next_start(broker: Broker) -> None:
    """The test cuts recovery off at ever later moments, while every log still needs recovery."""
    logs = [WrittenLog.write(broker, f"t{number}") for number in range(20)]
    broker.kill()
    for log in logs:
        with log.files(".log")[-1].open("ab") as file:
            file.write(log.batch(BATCHES)[:50])
        log.files(".index")[-1].unlink()
    for delay_ms in range(100, 500, 50):
        broker.start(wait=False)
        time.sleep(delay_ms / 1_000)
        broker.kill()
    broker.start()
    for log in logs:
        log.check_served()
        log.check_lookups()
