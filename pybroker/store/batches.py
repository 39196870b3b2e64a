"""The single calls of a store, for stores that implement only batches: ``get_many`` reads, ``multi`` writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pybroker.store.interface import (
    ANY_VERSION,
    Create,
    Delete,
    NoNode,
    Operation,
    OperationResult,
    Set,
    Stat,
)


class StoreOfBatches(ABC):
    """The single calls of a store. ``CoordinationStore`` documents the calls and their errors."""

    @abstractmethod
    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Returns data and Stat of each path, None if the node does not exist."""

    @abstractmethod
    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Performs all operations or none."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        [created] = await self.multi([Create(path, data, ephemeral, sequence)])
        return str(created)

    async def get(self, path: str) -> tuple[bytes, Stat]:
        [found] = await self.get_many([path])
        if found is None:
            raise NoNode(path)
        return found

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        [stat] = await self.multi([Set(path, data, version)])
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def exists(self, path: str) -> Stat | None:
        [found] = await self.get_many([path])
        return found[1] if found else None
