"""Finds the positions where reading begins: the committed offset, or the one that auto.offset.reset chooses.

A single task looks for all partitions without a position. It starts when there may be some.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Protocol

from cy.client.signal_safe_lock import SignalSafeLock
from pyclient.config import Config
from pyclient.consumer.errors import NoOffsetForPartition
from pyclient.consumer.offsets.committed import CommittedOffsets
from pyclient.consumer.offsets.list_offsets import OffsetLookup
from pyclient.consumer.subscription import EARLIEST, LATEST, PartitionState, Subscription
from pyclient.core.client import Client
from pyclient.core.tasks import ended, watched
from pyclient.errors import DENIED, STALE_ROUTE, ConfigError, KafkaError
from pyclient.topic_partition import TopicPartition

DAY_S = 86400
LOOK_S = 0.2
"""Seconds to wait for all topics' metadata, before a round continues with the topics that are known."""
PAUSE_S = 0.1
DENIED_S = 1.0
"""Like ``PAUSE_S``, while a right is missing."""
"""Seconds between rounds."""
Failures = dict[PartitionState, KafkaError]


class Listener(Protocol):
    """The part of the consumer that this module calls."""

    def on_positions(self) -> None:
        """Called when positions were found."""

    def on_error(self, error: KafkaError, holds: Callable[[], bool] = ...) -> None:
        """Makes ``poll`` raise this, if ``holds()`` is still true then."""

    def on_fault(self, error: KafkaError) -> None:
        """Makes each ``poll`` raise this: the search has ended."""


class PositionFinder:
    """Gives positions to the partitions of ``subscription`` that have none."""

    def __init__(
        self,
        client: Client,
        config: Config,
        subscription: Subscription,
        lock: SignalSafeLock,
        lookup: OffsetLookup,
        committed: CommittedOffsets | None,
        listener: Listener,
        wall_clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._subscription = subscription
        self._lock = lock
        self._lookup = lookup
        self._committed = committed
        self._listener = listener
        self._wall_clock = wall_clock
        self._policy: str = config.auto_offset_reset
        self._timeout: float = config.default_api_timeout_ms / 1000
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._since: dict[PartitionState, float] = {}
        """When the search began, for each partition that is not found yet."""
        self._refused: dict[PartitionState, int] = {}
        """The partitions whose error was reported, each with its turn at that time."""
        self._denied: dict[PartitionState, int] = {}
        """The partitions whose look-up was denied and is tried again, because the right may be granted. Each has its
        turn at that time.
        """
        reset_duration(self._policy)

    def start(self) -> None:
        """Starts to look for positions. Runs on the loop."""
        if self._task is not None and not self._task.done():
            self._again = True
            return
        self._refused.clear()
        self._task = watched(self._client.loop, self._run(), "the search for positions", self._listener.on_fault)

    async def _run(self) -> None:
        while True:
            self._again = False
            wait = await self._find_all()
            if wait is not None:
                await asyncio.sleep(wait)
            elif not self._again:
                return

    async def _find_all(self) -> float | None:
        """Looks up missing positions once. Returns the seconds until the next round, or None if none is needed."""
        with self._lock:
            states = [
                state
                for state in self._subscription.states.values()
                if state.position is None and self._refused.get(state) != state.turn
            ]
        if not states:
            return None
        failed = await self._unknown(states)
        # Leaves out partitions in which the application has sought meanwhile: its position wins.
        fresh = [state for state in states if state.position is None and state.reset is None and state not in failed]
        if fresh and self._committed is not None:
            failed |= await self._from_committed(self._committed, fresh)
        failed |= await self._from_time([s for s in states if s.position is None and s not in failed])
        if any(state.position is not None for state in states):
            self._listener.on_positions()
        return self._report(failed)

    def _report(self, failed: Failures) -> float | None:
        """Reports errors that are permanent or have lasted too long. Returns the seconds until the next attempt, if
        any.
        """
        now = self._client.clock()
        self._since = {state: self._since.get(state, now) for state in failed}
        turns = {state: state.turn for state in failed}
        told, self._denied = self._denied, {state: turns[state] for state in failed if failed[state].name in DENIED}
        for state, error in failed.items():
            if state in self._denied:
                if told.get(state) != state.turn:
                    self._listener.on_error(error, partial(_are_lost, [state], turns))
            elif not error.retriable:
                self._refused[state] = state.turn
                self._listener.on_error(error, partial(_are_lost, [s for s in failed if failed[s] is error], turns))
            elif error.name == "UNKNOWN_TOPIC_OR_PARTITION" and now - self._since[state] > self._timeout:
                del self._since[state]
                self._listener.on_error(error)
        if any(error.name in STALE_ROUTE for error in failed.values()):
            self._client.refresh()
        if any(error.retriable for error in failed.values()):
            return PAUSE_S
        return DENIED_S if self._denied else None

    async def _unknown(self, states: list[PartitionState]) -> Failures:
        """Returns errors for partitions that the metadata does not have. Partitions of other topics do not wait for
        them.
        """
        cluster = self._client.cluster
        with contextlib.suppress(KafkaError):
            create = None if self._subscription.pattern is None else False
            await self._client.metadata({state.tp.topic for state in states}, timeout=LOOK_S, create=create)
        return {
            state: self._client.why_unknown(state.tp) for state in states if cluster.partition(state.tp) is None
        }

    async def _from_committed(self, committed: CommittedOffsets, states: list[PartitionState]) -> Failures:
        turns = {state: state.turn for state in states}
        try:
            found, errors = await committed.once([state.tp for state in states])
        except KafkaError as error:
            if error.retriable or error.name in DENIED:
                return dict.fromkeys(states, error)
            raise
        with self._lock:
            for state in states:
                offset = found.get(state.tp)
                if offset is not None and state.turn == turns[state] and state.position is None:
                    state.seek(offset.offset, offset.leader_epoch)
                    state.committed = offset.offset
        return _of_states(states, errors)

    async def _from_time(self, states: list[PartitionState]) -> Failures:
        turns = {state: state.turn for state in states}
        times: dict[TopicPartition, int] = {}
        homeless = []
        for state in states:
            time = self._policy_time() if state.reset is None else state.reset
            if time is None:
                homeless.append(state)
            else:
                times[state.tp] = time
        failed = self._homeless(homeless)
        if times:
            found, errors = await self._lookup.once(times)
            ends = await self._lookup.once({tp: LATEST for tp, offset in found.items() if offset is None})
            found |= ends[0]  # if no record is at or after the time, start at the end
            with self._lock:
                for state in states:
                    offset = found.get(state.tp)
                    if offset is not None and state.turn == turns[state] and state.position is None:
                        state.seek(offset.offset)
            failed |= _of_states(states, errors | ends[1])
        return failed

    def _homeless(self, states: list[PartitionState]) -> Failures:
        names = ", ".join(str(state.tp) for state in states)
        error = NoOffsetForPartition(f"no committed offset and auto.offset.reset=none: {names}")
        return dict.fromkeys(states, error)

    def _policy_time(self) -> int | None:
        if self._policy == "none":
            return None
        if self._policy in ("earliest", "latest"):
            return EARLIEST if self._policy == "earliest" else LATEST
        return int((self._wall_clock() - reset_duration(self._policy)) * 1000)

    def reset(self, state: PartitionState, error: KafkaError) -> None:
        """Resets a position that is out of range, or raises ``error`` if auto.offset.reset=none. Called under the lock.
        """
        time = self._policy_time()
        if time is None:
            raise error
        state.seek_by(time)
        self._client.loop.call_soon_threadsafe(self.start)

    async def close(self) -> None:
        """Stops looking for positions."""
        if self._task is not None:
            with contextlib.suppress(Exception):
                await ended(self._task)


def _are_lost(states: list[PartitionState], turns: dict[PartitionState, int]) -> bool:
    """Returns whether a partition still has no position, and was not sought since."""
    return any(state.position is None and state.turn == turns[state] for state in states)


def _of_states(states: list[PartitionState], errors: dict[TopicPartition, KafkaError]) -> Failures:
    return {state: errors[state.tp] for state in states if state.tp in errors}


def reset_duration(policy: str) -> float:
    """Returns the seconds of ``by_duration:PT1H30M`` (ISO 8601, KIP-1106), and 0 for other policies. Raises
    ConfigError.
    """
    if not policy.startswith("by_duration:"):
        return 0.0
    text = policy.removeprefix("by_duration:")
    days, _, rest = text.removeprefix("P").partition("T")
    seconds, number = 0.0, ""
    units = {"D": DAY_S, "H": 3600, "M": 60, "S": 1}
    try:
        if not text.startswith("P") or not (days or rest):
            raise ValueError
        for sign in days + rest:
            if sign in units:
                seconds += float(number) * units[sign]
                number = ""
            else:
                number += sign
        if number:
            raise ValueError
    except ValueError:
        raise ConfigError(f"auto.offset.reset={policy!r} is not a duration such as by_duration:PT1H30M") from None
    return timedelta(seconds=seconds).total_seconds()
