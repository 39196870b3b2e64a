"""What a data set is to the demo: records to send, which of them are copied, and what a consumer works out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol


class Item(NamedTuple):
    """A record to send, and whether the worker has to copy it."""

    key: bytes | None
    value: bytes
    is_copied: bool


class Tally(Protocol):
    """What a consumer works out."""

    def add(self, values: list[bytes]) -> None:
        """Of these values too."""

    def merge(self, other: Any) -> None:
        """Takes over what another consumer has found."""

    def sentence(self) -> str:
        """The result."""


class Dataset(Protocol):
    """topic: its topic. title: its description. copied: the records that the worker copies. total: their number, or
    None if it is not known yet.
    """

    topic: str
    title: str
    copied: str
    total: int | None

    def items(self) -> Iterator[Item]:
        """The records, once. Raises Failure for what cannot be read."""

    def is_copied(self, value: bytes) -> bool:
        """Whether the worker copies it: what the worker finds out of the record alone."""

    def tally(self) -> Tally:
        """A new one."""
