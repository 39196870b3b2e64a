"""Folders: nodes that contain other nodes."""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.store.interface import CoordinationError, CoordinationStore, Create
from pyclient.protocol.errors import UnknownServerError


async def missing(store: CoordinationStore, folders: Sequence[str]) -> list[Create]:
    """Returns the writes that make missing folders."""
    existing = await store.get_many(folders)
    return [Create(path) for path, node in zip(folders, existing, strict=True) if node is None]


async def make(store: CoordinationStore, folders: Sequence[str]) -> None:
    """Makes missing folders. Raises UnknownServerError, also if another broker was faster."""
    try:
        if made := await missing(store, folders):
            await store.multi(made)
    except CoordinationError as error:
        raise UnknownServerError(f"coordination store: {error}") from error
