"""A data set of the demo: its records, which of them are copied, and the consumer's results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol


class Item(NamedTuple):
    """A record to send, and whether the worker has to copy it."""

    key: bytes | None
    value: bytes
    is_copied: bool


class Tally(Protocol):
    """The results of the demo's consumer."""

    def add(self, values: list[bytes]) -> None:
        """Adds these values to the result."""

    def merge(self, other: Any) -> None:
        """Takes over what another consumer has found."""

    def sentence(self) -> str:
        """Returns the result as a sentence."""


class Dataset(Protocol):
    """topic: its topic. title: its description. copied: the records that the worker copies. total: their number, or
    None if it is not known yet.
    """

    topic: str
    title: str
    copied: str
    total: int | None

    def items(self) -> Iterator[Item]:
        """Yields each record once. Raises Failure for unreadable data."""

    def is_copied(self, value: bytes) -> bool:
        """Says whether the worker copies the record. This depends only on the record."""

    def tally(self) -> Tally:
        """Makes a new tally."""
