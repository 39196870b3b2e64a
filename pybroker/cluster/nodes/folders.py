"""Nodes below which others are kept."""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.store.interface import CoordinationError, CoordinationStore, Create
from pyclient.protocol.errors import UnknownServerError


async def missing(store: CoordinationStore, folders: Sequence[str]) -> list[Create]:
    """The writes that make those that are not there."""
    existing = await store.get_many(folders)
    return [Create(path) for path, node in zip(folders, existing, strict=True) if node is None]


async def make(store: CoordinationStore, folders: Sequence[str]) -> None:
    """Makes those that are not there. Raises UnknownServerError, also where somebody else was quicker."""
    try:
        if made := await missing(store, folders):
            await store.multi(made)
    except CoordinationError as error:
        raise UnknownServerError(f"coordination store: {error}") from error
