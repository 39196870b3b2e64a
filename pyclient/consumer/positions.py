"""Finds where to begin: the committed offset, or what auto.offset.reset says.

One task at a time looks for all partitions that have no position; it is started whenever there may
be new ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from pyclient.config import Config
from pyclient.consumer.committed import CommittedOffsets
from pyclient.consumer.errors import NoOffsetForPartition
from pyclient.consumer.list_offsets import OffsetLookup
from pyclient.consumer.subscription import EARLIEST, LATEST, PartitionState, Subscription
from pyclient.core.client import Client
from pyclient.errors import ConfigError, KafkaError

DAY_S = 86400


class Listener(Protocol):
    """Who wants to know."""

    def on_positions(self) -> None:
        """There are positions now."""

    def on_error(self, error: KafkaError) -> None:
        """``poll`` has to raise this."""


class PositionFinder:
    """Gives positions to the partitions of ``subscription`` that have none."""

    def __init__(
        self,
        client: Client,
        config: Config,
        subscription: Subscription,
        lock: threading.RLock,
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
        reset_duration(self._policy)

    def start(self) -> None:
        """Looks for positions, soon. On the loop."""
        if self._task is not None and not self._task.done():
            self._again = True
            return
        self._task = self._client.loop.create_task(self._run())

    async def _run(self) -> None:
        while True:
            self._again = False
            try:
                await self._find_all()
            except KafkaError as error:
                if error.retriable:
                    await asyncio.sleep(0.1)
                    continue
                self._listener.on_error(error)
            if not self._again:
                return

    async def _find_all(self) -> None:
        with self._lock:
            states = [state for state in self._subscription.states.values() if state.position is None]
        if not states:
            return
        await self._client.metadata({state.tp.topic for state in states}, timeout=self._timeout)
        fresh = [state for state in states if state.reset is None]
        if fresh and self._committed is not None:
            await self._from_committed(self._committed, fresh)
        await self._from_time([state for state in states if state.position is None])
        self._listener.on_positions()

    async def _from_committed(self, committed: CommittedOffsets, states: list[PartitionState]) -> None:
        turns = {state: state.turn for state in states}
        found = await committed.fetch([state.tp for state in states], self._timeout)
        with self._lock:
            for state in states:
                offset = found.get(state.tp)
                if offset is not None and state.turn == turns[state]:
                    state.seek(offset.offset, offset.leader_epoch)
                    state.committed = offset.offset

    async def _from_time(self, states: list[PartitionState]) -> None:
        turns = {state: state.turn for state in states}
        times = {}
        homeless = []
        for state in states:
            time = self._policy_time() if state.reset is None else state.reset
            if time is None:
                homeless.append(str(state.tp))
            else:
                times[state.tp] = time
        if times:
            found = await self._lookup.find(times)
            with self._lock:
                for state in states:
                    offset = found.get(state.tp)
                    if offset is not None and state.turn == turns[state] and state.position is None:
                        state.seek(offset.offset)
            await self._at_end(states, turns, found)
        if homeless:
            raise NoOffsetForPartition(f"no committed offset and auto.offset.reset=none: {', '.join(homeless)}")

    async def _at_end(self, states: list[PartitionState], turns: dict[PartitionState, int], found: object) -> None:
        """Where no record is at or after a time, the end is."""
        left = [state for state in states if state.position is None and state.turn == turns[state]]
        missing = [state for state in left if isinstance(found, dict) and state.tp in found]
        if not missing:
            return
        ends = await self._lookup.find({state.tp: LATEST for state in missing})
        with self._lock:
            for state in missing:
                end = ends[state.tp]
                if end is not None and state.turn == turns[state]:
                    state.seek(end.offset)

    def _policy_time(self) -> int | None:
        if self._policy == "none":
            return None
        if self._policy in ("earliest", "latest"):
            return EARLIEST if self._policy == "earliest" else LATEST
        return int((self._wall_clock() - reset_duration(self._policy)) * 1000)

    def reset(self, state: PartitionState, error: KafkaError) -> None:
        """The position is out of range: by the policy, or ``error`` is raised. Under the lock."""
        time = self._policy_time()
        if time is None:
            raise error
        state.seek_by(time)
        self._client.loop.call_soon_threadsafe(self.start)

    async def close(self) -> None:
        """Stops looking."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task


def reset_duration(policy: str) -> float:
    """Seconds of ``by_duration:PT1H30M`` (ISO 8601, KIP-1106), 0 of other policies. Raises ConfigError."""
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
        raise ConfigError(f"auto.offset.reset={policy!r} is no duration: by_duration:PT1H30M") from None
    return timedelta(seconds=seconds).total_seconds()
