"""How a broker follows the journal of a store that cannot be read, by a virtual clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from proofs.simulator.machines.scheduler import ProcessLoop, Scheduler
from pybroker.cluster.following import Following
from pybroker.store.interface import NoNode, SessionState


class EmptyStore:
    """A store without a journal. ``asked`` has the times of reads, ``watching`` the function that its watch calls."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.asked: list[float] = []
        self.watching: Callable[[str], object] = lambda path: None
        self.connected: Callable[[SessionState], object] = lambda state: None
        self.session = SimpleNamespace(on_change=self._listen)
        self._scheduler = scheduler

    def _listen(self, listener: Callable[[SessionState], object]) -> None:
        self.connected = listener

    def watch(self, path: str, call: Callable[[str], object]) -> Any:
        self.watching = call
        return SimpleNamespace(cancel=lambda: None)

    async def get_many(self, paths: list[str]) -> list[Any]:
        self.asked.append(self._scheduler.now)
        raise NoNode(paths[0])


async def nothing(*_: object) -> None:
    pass


def following(scheduler: Scheduler) -> tuple[EmptyStore, Following]:
    """Begins to follow."""
    store: Any = EmptyStore(scheduler)
    apply: Callable[..., Awaitable[None]] = nothing
    follows = Following(store, lambda: 7, apply, nothing, lambda error: None)
    loop = ProcessLoop(scheduler, "a broker")

    async def begin() -> None:
        follows.start()

    loop.start(begin())
    return store, follows


def test_a_store_without_a_journal_is_queried_with_growing_pauses() -> None:
    scheduler = Scheduler(Random(0))
    store, _ = following(scheduler)
    scheduler.run(600.0)
    assert len([when for when in store.asked if when < 2.0]) >= 4
    assert 100 <= len(store.asked) <= 130, "five times a second would be 3,000"
    scheduler.close()


def test_a_journal_entry_or_a_new_session_ends_the_pause_between_queries() -> None:
    """If the entry exists, or the session is connected again, the broker reads before the pause is over."""
    for news in ("entry", "session"):
        scheduler = Scheduler(Random(0))
        store, _ = following(scheduler)
        scheduler.run(100.0)
        last = store.asked[-1]
        scheduler.run(last + 1.0)
        if news == "entry":
            scheduler.after(0.0, store.watching, "/pybroker/journal/8")
        else:
            scheduler.after(0.0, store.connected, SessionState.CONNECTED)
        scheduler.run(last + 1.5)
        assert last + 1.0 <= store.asked[-1] <= last + 1.5, news
        scheduler.close()
