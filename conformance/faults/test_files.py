"""Files as a crash, a bad disk or a clumsy hand leaves them: cases 1, 2, 4, 6, 9, 10 and 29."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance import batches
from conformance.brokers import Broker
from conformance.conftest import NewBroker
from conformance.members import committed, find_coordinator
from conformance.wire_client import Wire

COUNT = 24


@pytest.fixture
def killed(new_broker: NewBroker) -> Broker:
    """A broker that was killed with three segments of 100 KB batches in ``t-0``, the last of them never flushed."""
    broker = new_broker(log_segment_bytes=1 << 20)
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        for number in range(COUNT):
            data = batches.batch([value(number)], base_timestamp=batches.now_ms())
            assert wire.produce("t", data).base_offset == number
    broker.kill()
    return broker


def value(number: int) -> bytes:
    return b"%d " % number + b"." * 100_000


def log_file(broker: Broker) -> Path:
    return max(broker.partition_dir("t").glob("*.log"))


def check(broker: Broker, end: int) -> None:
    """The first ``end`` records are there, the next one gets the next offset."""
    with Wire(broker.address) as wire:
        assert wire.end_offset("t") == end
        for offset in range(end):
            assert batches.values(wire.fetch("t", offset, partition_max_bytes=1).records) == [value(offset)]
        assert wire.produce("t", batches.batch([value(end)])).base_offset == end
        assert batches.values(wire.fetch("t", end).records) == [value(end)]


WHOLE = batches.batch([b"never acked"], base_offset=COUNT, leader_epoch=0)
TAILS = {
    "half a header": WHOLE[:30],
    "half a batch": WHOLE[:-3],
    "zeros": bytes(5_000),
    "noise": os.urandom(3_000),
    "a batch with a wrong crc": WHOLE[:-1] + b"?",
    "a length beyond the end": WHOLE[:8] + struct.pack(">i", 10**9) + WHOLE[12:],
    "a negative length": WHOLE[:8] + struct.pack(">i", -5) + WHOLE[12:],
    "an older offset": batches.batch([b"old"], base_offset=3),
}


@pytest.mark.parametrize("tail", TAILS)
def test_case_1_a_torn_tail_is_cut_off(killed: Broker, tail: str) -> None:
    with log_file(killed).open("ab") as file:
        file.write(TAILS[tail])
    check(killed.start(), COUNT)


@pytest.mark.parametrize("cut", [1, 50, 100_030])
def test_case_6_a_bad_batch_in_the_unflushed_tail_ends_the_log_there(killed: Broker, cut: int) -> None:
    """The last batch was changed on disk: it goes, what was before it stays."""
    path = log_file(killed)
    data = bytearray(path.read_bytes())
    data[-cut] ^= 0xFF
    path.write_bytes(data)
    check(killed.start(), COUNT - 1)


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def scribble(path: Path) -> None:
    path.write_bytes(os.urandom(800))


def shift(path: Path) -> None:
    """Plausible, and wrong: entries of another file."""
    path.write_bytes(struct.pack(">iiii", 1, 77, 2, 1_000) * 20)


DAMAGES = [remove, empty, scribble, shift]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_case_2_damaged_indexes_are_rebuilt_after_a_crash(
    killed: Broker, suffix: str, damage: Callable[[Path], None]
) -> None:
    for path in killed.partition_dir("t").glob(f"*{suffix}"):
        damage(path)
    killed.start()
    with Wire(killed.address) as wire:
        first = batches.headers(wire.fetch("t", 0, partition_max_bytes=1).records)[0]
        assert wire.offset("t", first.base_timestamp).offset == 0
    check(killed, COUNT)


@pytest.mark.parametrize("damage", [remove, empty, scribble])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_case_2_damaged_indexes_are_rebuilt_after_a_stop_in_order(
    killed: Broker, suffix: str, damage: Callable[[Path], None]
) -> None:
    killed.start().stop()
    for path in killed.partition_dir("t").glob(f"*{suffix}"):
        damage(path)
    check(killed.start(), COUNT)


def test_case_2_orphans_of_a_roll_are_no_obstacle(killed: Broker) -> None:
    """Index files without a log, a leftover of a swap and a file that is none of ours."""
    folder = killed.partition_dir("t")
    for name in (f"{999:020}.index", f"{999:020}.timeindex", f"{0:020}.log.cleaned", "notes.txt"):
        (folder / name).write_bytes(b"left over")
    check(killed.start(), COUNT)
    assert not (folder / f"{999:020}.index").exists()


CHECKPOINTS = [
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
]


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.ours
@pytest.mark.parametrize("damage", [remove, empty, scribble])
def test_case_4_a_checkpoint_that_is_gone_or_garbage_costs_no_record(
    killed: Broker, name: str, damage: Callable[[Path], None]
) -> None:
    killed.start().stop()
    path = killed.log_dir / name
    path.touch()
    damage(path)
    check(killed.start(), COUNT)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_case_4_a_half_written_new_checkpoint_is_ignored(killed: Broker, name: str) -> None:
    killed.start().kill()
    (killed.log_dir / f"{name}.tmp").write_text("0\n5\nt 0")
    check(killed.start(), COUNT)


def test_case_9_a_recovery_point_beyond_the_end_is_clamped(killed: Broker) -> None:
    killed.start().stop()
    path = killed.log_dir / "recovery-point-offset-checkpoint"
    path.write_text(path.read_text().replace(f"t 0 {COUNT}\n", "t 0 999999\n"))
    killed.start().crash()
    check(killed, COUNT)


@pytest.mark.parametrize("damage", [remove, empty, scribble])
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_case_10_a_damaged_producer_snapshot_is_rebuilt_from_the_log(
    new_broker: NewBroker, damage: Callable[[Path], None], how: str
) -> None:
    broker = new_broker(log_segment_bytes=1 << 20)
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        producer_id = wire.new_producer_id()

        def send(one: Wire, sequence: int) -> tuple[int, int]:
            producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            row = one.produce("t", batches.batch([b"." * 100_000], **producer))
            return row.error_code, row.base_offset

        assert [send(wire, number) for number in range(15)] == [(0, number) for number in range(15)]
    broker.kill() if how == "kill" else broker.stop()
    for path in broker.partition_dir("t").glob("*.snapshot"):
        damage(path)
    broker.start()
    with Wire(broker.address) as wire:
        assert send(wire, 14) == (0, 14)
        assert send(wire, 12) == (0, 12)
        assert send(wire, 16)[0] == 45
        assert send(wire, 15) == (0, 15)


def test_case_29_one_timestamp_of_the_future_does_not_wipe_a_segment(new_broker: NewBroker) -> None:
    broker = new_broker(
        log_retention_check_interval_ms=100, log_initial_task_delay_ms=1, log_segment_bytes=1 << 20
    )
    now = batches.now_ms()
    with Wire(broker.address) as wire:
        configs = {"message.timestamp.after.max.ms": 10**13, "retention.ms": 3_600_000}
        wire.create_topic("t", configs=configs)
        for number in range(COUNT):
            start = now + 10**11 if number == 3 else now
            wire.produce("t", batches.batch([value(number)], base_timestamp=start))
    broker.restart()
    check(broker, COUNT)


def test_offsets_of_groups_survive_a_torn_tail_in_their_own_log(new_broker: NewBroker) -> None:
    broker = new_broker(offsets_topic_num_partitions=1)
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        find_coordinator(wire, "g")
        for offset in range(10):
            row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
            fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
            rows = [{"name": "t", "partitions": [row]}]
            reply = wire.ask("OffsetCommit", 8, group_instance_id=None, topics=rows, **fields)
            assert reply.topics[0].partitions[0].error_code == 0
    broker.kill()
    path = broker.partition_dir("__consumer_offsets") / f"{0:020}.log"
    with path.open("ab") as file:
        file.write(WHOLE[:50])
    broker.start()
    with Wire(broker.address) as wire:
        assert committed(wire, "g", "t") == 9
