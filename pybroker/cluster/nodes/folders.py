"""Folders: nodes that contain other nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from pybroker.store.interface import CoordinationError, CoordinationStore, Create, NodeExists
from pyclient.protocol.errors import UnknownServerError


async def missing(store: CoordinationStore, folders: Sequence[str]) -> list[Create]:
    """Returns the writes that create missing folders."""
    existing = await store.get_many(folders)
    return [Create(path) for path, node in zip(folders, existing, strict=True) if node is None]


async def make(store: CoordinationStore, folders: Sequence[str]) -> None:
    """Creates missing folders; another broker may do the same at the same time. Raises UnknownServerError."""
    try:
        while made := await missing(store, folders):
            with contextlib.suppress(NodeExists):
                await store.multi(made)
    except CoordinationError as error:
        raise UnknownServerError(f"coordination store: {error}") from error
