"""The checker of streams catches each anomaly that is planted, and nothing where there is none."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.faults.checkers import history, streams
from conformance.faults.checkers.streams import Journal, PartitionLog, make_value

PARTITIONS = 2
ENDED, KILLED = 3, 8
COUNT = 40
Row = tuple[int, bytes]


class World:
    """Two streams in two partitions, a reader of everything, and a group of two members. One stream was written to its
    end. The writer of the other one was killed after record 35. It got no answer for this record and the four before
    it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs: list[list[Row]] = [[], []]
        self.lines: dict[str, list[str]] = {name: [] for name in ("ended", "killed", "reader", "one", "two")}
        for number in range(COUNT):
            for name, stream in (("ended", ENDED), ("killed", KILLED)):
                if stream == ENDED or number < 36:
                    offset = self._append(stream, number)
                    if stream == ENDED or number < 31:
                        self.told(name, stream, number, offset)
        self.lines["ended"].append(f"end {ENDED} {COUNT}")
        self.state = {place: [len(log), self._crc(log)] for place, log in enumerate(self.logs)}
        self.lines["one"] = ["seen 0 0 20", f"seen 0 20 {len(self.logs[0])}", "seen 1 0 10"]
        self.lines["two"] = ["seen 1 5 30", f"seen 1 30 {len(self.logs[1])}"]

    def _append(self, stream: int, number: int) -> int:
        log = self.logs[number % PARTITIONS]
        log.append((len(log), make_value(stream, number)))
        return len(log) - 1

    def told(self, name: str, stream: int, number: int, offset: int, count: int = 1) -> None:
        self.lines[name].append(f"told {stream} {number % PARTITIONS} {number} {offset} {count}")

    def _crc(self, log: list[Row]) -> int:
        return zlib.crc32(b"".join(value for _, value in log))

    def _journal(self, name: str) -> Journal:
        path = self.folder / name
        path.write_text("".join(line + "\n" for line in self.lines[name]) + "an unfinished li")
        journal = Journal(path)
        journal.refresh()
        return journal

    def check(self) -> list[str]:
        """Returns the kinds of the anomalies."""
        self.lines["reader"].append("state " + json.dumps(self.state))
        logs = [PartitionLog(place, PARTITIONS) for place in range(PARTITIONS)]
        for log, rows in zip(logs, self.logs, strict=True):
            for row in rows:
                log.take(*row)
        journals = {name: self._journal(name) for name in self.lines}
        writers = [journals["ended"], journals["killed"]]
        group = {"g": [journals["one"], journals["two"]]}
        found = streams.check(logs, writers, [journals["reader"]], group, (ENDED, KILLED))
        return [anomaly.kind for anomaly in found]

    def renumber(self, place: int, values: list[bytes]) -> None:
        """Makes another log, whose readers got exactly what it holds."""
        self.logs[place] = list(enumerate(values))
        self.state[place] = [len(values), self._crc(self.logs[place])]
        self.lines["one"].append(f"seen {place} 0 {len(values)}")

    def values(self, place: int) -> list[bytes]:
        return [value for _, value in self.logs[place]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_history_without_faults_has_no_anomalies(world: World) -> None:
    assert world.check() == []


def test_the_last_record_of_a_killed_writer_may_exist_or_not(world: World) -> None:
    values = world.values(0)
    values.remove(make_value(KILLED, 34))
    world.renumber(0, values)
    world.lines["one"].pop(1)  # The reader got what is there now.
    world.lines["ended"] = [line for line in world.lines["ended"] if line.startswith("end")]
    world.told("ended", ENDED, 0, -1, COUNT // 2)
    world.told("ended", ENDED, 1, -1, COUNT // 2)
    assert world.check() == []


def lose_an_acked_record(world: World) -> None:
    world.logs[0].remove((4, world.logs[0][4][1]))


def lose_the_tail(world: World) -> None:
    world.renumber(1, world.values(1)[:-1])
    world.lines["two"].pop()


def lose_what_nobody_was_told_of(world: World) -> None:
    values = world.values(0)
    values.remove(make_value(KILLED, 32))
    world.renumber(0, values)


def double_a_batch(world: World) -> None:
    world.renumber(0, world.values(0) + world.values(0)[-4:])


def double_an_unacked_record(world: World) -> None:
    values = world.values(1)
    world.renumber(1, [*values, make_value(KILLED, 35)])


def swap_two_records(world: World) -> None:
    values = world.values(0)
    values[4], values[6] = values[6], values[4]
    world.renumber(0, values)


def shift_an_ack(world: World) -> None:
    world.lines["killed"][3] = f"told {KILLED} 1 3 4 1"


def skip_an_offset(world: World) -> None:
    offset, value = world.logs[0][-1]
    world.logs[0][-1] = (offset + 1, value)


def flip_a_bit(world: World) -> None:
    values = world.values(0)
    values[7] = values[7][:-1] + bytes([values[7][-1] ^ 1])
    world.renumber(0, values)


def invent_a_stream(world: World) -> None:
    world.renumber(0, [*world.values(0), make_value(99, 0)])


def write_to_another_partition(world: World) -> None:
    world.renumber(0, [*world.values(0), make_value(KILLED, 37)])


def send_more_than_was_to_be_sent(world: World) -> None:
    world.renumber(0, [*world.values(0), make_value(ENDED, COUNT)])


def forget_an_answer(world: World) -> None:
    world.lines["ended"].pop(3)


def answer_twice(world: World) -> None:
    world.lines["ended"].insert(0, world.lines["ended"][0])


def give_a_record_up(world: World) -> None:
    world.lines["killed"].append("failed record 35 was given up")


def give_a_reader_another_value(world: World) -> None:
    world.state[1][1] ^= 1


def keep_a_record_from_a_reader(world: World) -> None:
    world.state[1][0] -= 1


def give_a_reader_what_is_not_there(world: World) -> None:
    world.state[0][0] += 1


def keep_a_record_from_a_group(world: World) -> None:
    world.lines["one"][1] = f"seen 0 21 {len(world.logs[0])}"


def keep_the_last_from_a_group(world: World) -> None:
    world.lines["two"][1] = f"seen 1 30 {len(world.logs[1]) - 1}"


def give_a_group_what_is_not_there(world: World) -> None:
    world.lines["two"][1] = f"seen 1 30 {len(world.logs[1]) + 1}"


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (lose_an_acked_record, history.LOST),
        (lose_an_acked_record, history.HOLE),
        (lose_the_tail, history.LOST),
        (lose_what_nobody_was_told_of, history.LOST),
        (double_a_batch, history.DUPLICATE),
        (double_an_unacked_record, history.DUPLICATE),
        (swap_two_records, history.REORDERED),
        (shift_an_ack, history.INCONSISTENT),
        (skip_an_offset, history.HOLE),
        (flip_a_bit, history.PHANTOM),
        (invent_a_stream, history.PHANTOM),
        (write_to_another_partition, history.PHANTOM),
        (send_more_than_was_to_be_sent, history.PHANTOM),
        (forget_an_answer, streams.UNANSWERED),
        (answer_twice, streams.UNANSWERED),
        (give_a_record_up, streams.FAILED),
        (give_a_reader_another_value, history.INCONSISTENT),
        (keep_a_record_from_a_reader, history.LOST),
        (give_a_reader_what_is_not_there, history.UNSEEN),
        (keep_a_record_from_a_group, history.LOST),
        (keep_the_last_from_a_group, history.LOST),
        (give_a_group_what_is_not_there, history.UNSEEN),
    ],
)
def test_each_planted_anomaly_is_caught(world: World, plant: Callable[[World], None], kind: str) -> None:
    plant(world)
    assert kind in world.check()
