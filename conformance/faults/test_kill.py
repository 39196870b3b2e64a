"""kill -9 at random moments under load: cases 1, 5, 31 and 42, scenario S80.

No record that was acked under acks=all is lost, none of an idempotent producer stands twice, no commit goes back.
"""

from __future__ import annotations

import random
import time

import pytest

from conformance import batches
from conformance.brokers import Broker, OurBroker
from conformance.conftest import NewBroker
from conformance.faults.history import History
from conformance.faults.load import CommitLoad, LibrdkafkaLoad, RawLoad
from conformance.members import committed, find_coordinator
from conformance.scenarios.support import until
from conformance.wire_client import Wire


def test_case_1_25_kills_under_load_lose_and_double_nothing(new_broker: NewBroker) -> None:
    kill_again_and_again(new_broker(**SMALL_SEGMENTS), rounds=25)


@pytest.mark.ours
def test_case_1_25_kills_under_load_with_a_sync_before_every_ack(new_broker: NewBroker) -> None:
    kill_again_and_again(new_broker(flush_acks="true", **SMALL_SEGMENTS), rounds=25)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2))
def test_case_1_200_kills_under_load_lose_and_double_nothing(new_broker: NewBroker, seed: int) -> None:
    kill_again_and_again(new_broker(**SMALL_SEGMENTS), rounds=200, seed=seed)


#: Segments roll many times between two kills.
SMALL_SEGMENTS = {"log_segment_bytes": 1 << 20}


def kill_again_and_again(broker: Broker, rounds: int, seed: int | None = None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    print(f"seed {seed}")
    chance = random.Random(seed)
    history = History()
    with Wire(broker.address) as wire:
        wire.create_topic("t", 3)
        find_coordinator(wire, "committer")
    commits = CommitLoad(broker, history, "t", 0)
    with LibrdkafkaLoad(broker, history, "t", 0), RawLoad(broker, history, "t", 1), commits:
        with LibrdkafkaLoad(broker, history, "t", 2):
            for _ in range(rounds):
                time.sleep(chance.uniform(0.05, 0.4))
                known = commits.committed
                broker.kill()
                _maybe_kill_the_recovery(broker, chance)
                broker.start()
                with Wire(broker.address) as wire:
                    assert committed(wire, "committer", "t") >= known, "a commit went back"
    with Wire(broker.address) as wire:
        for partition in range(3):
            history.reads[("t", partition)].append(read_all(wire, "t", partition))
    assert history.anomalies() == []
    for partition in range(3):
        assert len(history.acked[("t", partition)]) > rounds, "there was no load"


def _maybe_kill_the_recovery(broker: Broker, chance: random.Random) -> None:
    """Case 5: some starts are killed as well, at any moment of their recovery."""
    while chance.random() < 0.3:
        broker.start(wait=False)
        time.sleep(chance.uniform(0.0, 0.4))
        broker.kill()


def read_all(wire: Wire, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """(offset, value) of the whole partition."""
    found: list[tuple[int, bytes]] = []
    end = wire.end_offset(topic, partition)
    while len(found) < end:
        data = wire.fetch(topic, len(found), partition, partition_max_bytes=10 << 20).records
        headers = batches.headers(data)
        assert all(header.crc_is_right for header in headers)
        found += [(offset, value or b"") for offset, _, value in batches.rows(data)]
    return found


@pytest.mark.ours
def test_case_5_a_start_that_was_killed_leaves_no_clean_mark(new_broker: NewBroker) -> None:
    """After a stop in order, a start killed at once must still count as a crash for the next one."""
    broker = new_broker()
    assert isinstance(broker, OurBroker)
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        wire.produce("t", batches.batch([b"x"]))
    broker.stop()
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()
    broker.start(wait=False)
    until(lambda: not (broker.log_dir / ".kafka_cleanshutdown").exists(), "the mark to go")
    broker.kill()
    assert not (broker.log_dir / ".kafka_cleanshutdown").exists()
    broker.start()
    with Wire(broker.address) as wire:
        assert wire.end_offset("t") == 1
