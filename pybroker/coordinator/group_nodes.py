"""Shows the members of groups in ZooKeeper: ``/consumers/<group>/ids/<member>``.

Old consumers registered themselves there, and tools still read it. The coordinator makes an ephemeral node for each
member of its groups, in that old format. Nothing depends on these nodes. Every ``ROUND_S`` a round compares them with
the groups and writes the differences. So no request waits for ZooKeeper, and many rejoining members cost only one
round. When another broker becomes a group's coordinator, it makes its nodes after the old ones have gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pybroker.clock import Clock
from pybroker.cluster.metadata.znodes import encode_member, members_path, quoted
from pybroker.coordinator.group.group import Subscription
from pybroker.coordinator.group.records import subscribed_topics
from pybroker.store.interface import (
    CoordinationError,
    CoordinationStore,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionState,
    ensure_path,
)

if TYPE_CHECKING:
    from pybroker.coordinator.group.shard import GroupShard

ROUND_S: Final = 2.0
MAX_NODES: Final = 20_000
"""How many members are shown at most."""
AT_ONCE: Final = 100
"""How many writes are in flight at a time."""

Said = Subscription | bytes

logger = logging.getLogger(__name__)


class GroupNodes:
    """The nodes of the groups that one broker coordinates."""

    def __init__(
        self, store: CoordinationStore, shards: Callable[[], Iterable[GroupShard]], clock: Clock
    ) -> None:
        self._store = store
        self._shards = shards
        self._clock = clock
        self._session = store.session.id
        self._made: dict[str, Said] = {}
        """The subscription in each node, by path."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts in the background."""
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Stops the task. The nodes vanish with the session."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_S)
            try:
                await self.round()
            except CoordinationError as error:
                logger.debug("the members of groups are not in ZooKeeper yet: %s", error)
            except Exception:
                logger.exception("the members of groups could not be written to ZooKeeper")

    async def round(self) -> None:
        """Makes the nodes match the groups' members. Raises CoordinationError if the store cannot be reached."""
        session = self._store.session
        if session.state is not SessionState.CONNECTED:
            return
        if session.id != self._session:
            self._session = session.id
            self._made.clear()
        wanted = dict(self._wanted())
        gone = [path for path, said in self._made.items() if wanted.get(path) != said]
        await self._each(gone, self._remove)
        await self._tidy(gone, wanted)
        new = [path for path in wanted if path not in self._made]
        for folder in {_folder(path) for path in new}:
            await ensure_path(self._store, folder)
        await self._each(new, lambda path: self._create(path, wanted[path]))

    def _wanted(self) -> Iterator[tuple[str, Said]]:
        left = MAX_NODES
        for shard in self._shards():
            for group in shard.groups.values():
                if group.is_empty:
                    continue
                folder = members_path(group.id)
                for member_id, said in group.member_subscriptions():
                    if left == 0:
                        return
                    left -= 1
                    yield f"{folder}/{quoted(member_id)}", said

    async def _each(self, paths: Sequence[str], work: Callable[[str], Awaitable[None]]) -> None:
        for first in range(0, len(paths), AT_ONCE):
            await asyncio.gather(*map(work, paths[first : first + AT_ONCE]))

    async def _create(self, path: str, said: Said) -> None:
        try:
            await self._store.create(path, self._data(said), ephemeral=True)
        except NodeExists:
            stat = await self._store.exists(path)
            if stat is not None and stat.owner == self._session:
                await self._store.delete(path)  # # the answer to its creation was lost
            return
        except NoNode:
            return  # # the folder was deleted meanwhile; the next round makes it again
        self._made[path] = said

    def _data(self, said: Said) -> bytes:
        topics, regex = said if isinstance(said, Subscription) else (subscribed_topics(said) or (), "")
        return encode_member(topics, regex, self._clock.now_ms())

    async def _remove(self, path: str) -> None:
        del self._made[path]
        with contextlib.suppress(NoNode):
            await self._store.delete(path)

    async def _tidy(self, gone: Iterable[str], wanted: Mapping[str, Said]) -> None:
        """Removes the folders of groups without members."""
        for folder in {_folder(path) for path in gone} - {_folder(path) for path in wanted}:
            with contextlib.suppress(NoNode, NotEmpty):
                await self._store.delete(folder)
                await self._store.delete(folder.removesuffix("/ids"))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
