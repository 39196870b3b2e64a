"""Helpers of the SDK's tests. Waits poll, with a deadline that only a very busy machine reaches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from pyclient import Consumer, Record, TopicPartition
from pyclient.errors import KafkaError

T = TypeVar("T")

PATIENCE_S = 90.0
LATE_S = 3.0
"""The time limit of a call that ends with an earlier error of a broker."""
SOON_S = 0.1
"""A wait has usually begun then. A test that calls something so late passes before and after that."""


def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Polls until ``condition`` returns something true, and returns that."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.02)
    return found


def answered(ask: Callable[[], T], holds: Callable[[T], object] = bool) -> T:
    """Returns the result of ``ask`` once ``holds`` accepts it. A broker may lag behind its controller and refuse at
    first.
    """

    def look() -> list[T]:
        with suppress(KafkaError):
            if holds(answer := ask()):
                return [answer]
        return []

    [found] = until(look)
    return found


def in_time(work: Callable[[], Any]) -> Any:
    """Runs the work in its own thread, which must end in time. Returns the result, or the error that ended it."""
    told: list[Any] = []

    def call() -> None:
        try:
            told.append(work())
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it hangs"
    return told[0]


def patiently(told: Callable[[], str]) -> Iterator[None]:
    """Loops until the time limit of a test, then fails with the text that ``told`` returns."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < deadline, told()
        yield


def take(consumer: Consumer, count: int) -> list[Record]:
    """Polls until it has ``count`` records."""
    found: list[Record] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        found.extend(consumer.poll(timeout=0.2))
    return found


def read_all(bootstrap: str, topic: str, partitions: int = 1, **settings: Any) -> list[Record]:
    """Returns all records that a topic has now."""
    with Consumer(bootstrap, **settings) as consumer:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        consumer.seek_to_beginning()
        found: list[Record] = []
        deadline = time.monotonic() + PATIENCE_S
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline, f"at {consumer.positions()} of {ends}"
            found.extend(consumer.poll(timeout=0.2))
        return found
