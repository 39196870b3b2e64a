"""Turns values into a struct column by ``valueFormat``, after the prefix of a schema registry if there is one.

A value that cannot be read fails the query with an error that names its offset, or becomes null (``valueErrors``). The
reader of the format names wrong values, or halving the batch finds them. If all values are right, this costs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pyclient.errors import ClientError

log = logging.getLogger(__name__)

_WRONG: Final = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)
PREFIX: Final = 5
"""The size of the prefix: a zero byte, and the number of the schema in a registry."""


class Unreadable(ValueError):
    """Raised if some rows of the values are not in the format of the option."""

    def __init__(self, bad: pa.BooleanArray, why: str) -> None:
        super().__init__(why)
        self.bad = bad
        """True for each of these rows; without nulls."""


class BadValue(ClientError):
    """A record's value is not in ``valueFormat``. The text names its offset."""

    name = "BAD_VALUE"


class Values(Protocol):
    """A reader of values of one format and type."""

    def of(self, values: pa.BinaryArray) -> pa.StructArray:
        """Returns a struct for each value, null for a null value. Raises Unreadable, ArrowInvalid, ArrowTypeError,
        OverflowError.
        """


@dataclass(frozen=True)
class TypedValues:
    """Reads the values of a source. Can be pickled."""

    values: Values
    prefix: str
    """What values begin with: ``none`` for nothing, or ``registry`` for a schema id."""
    schema_id: int | None
    """The schema id that the prefix must have."""
    fails: bool

    def of(self, values: pa.BinaryArray, where: Callable[[int], str]) -> pa.StructArray:
        """Returns the column. ``where`` names the record of a row. Raises BadValue."""
        try:
            return self._plain(values)
        except Unreadable as error:
            self._on_bad(where(pc.index(error.bad, True).as_py()), error.bad.true_count, error)
            return self.of(pc.if_else(error.bad, pa.scalar(None, values.type), values), where)
        except _WRONG as error:
            if len(values) > 1:
                return self._halved(values, where)
            self._on_bad(where(0), 1, error)
            return self._plain(pa.nulls(1, values.type))

    def _on_bad(self, first: str, count: int, error: Exception) -> None:
        told = f"the value at {first} cannot be read: {error}"
        if self.fails:
            raise BadValue(f"{told}; set valueErrors=null to read it as null") from error
        log.warning("%s%s", told, "" if count == 1 else f"; nor can {count - 1} behind it")

    def _halved(self, values: pa.BinaryArray, where: Callable[[int], str]) -> Any:
        middle = len(values) // 2
        head = self.of(values[:middle], where)
        tail = self.of(values[middle:], lambda row: where(row + middle))
        return pa.concat_arrays([head, tail])

    def _plain(self, values: pa.BinaryArray) -> pa.StructArray:
        return self.values.of(values if self.prefix == "none" else self._behind_prefix(values))

    def _behind_prefix(self, values: pa.BinaryArray) -> pa.BinaryArray:
        number = None if self.schema_id is None else self.schema_id.to_bytes(4, "big")
        right = pc.equal(pc.binary_slice(values, 0, 1), b"\0")
        if number is not None:
            right = pc.and_(right, pc.equal(pc.binary_slice(values, 1, PREFIX), number))
        bad = pc.invert(pc.fill_null(right, True))
        if bad.true_count:
            wanted = "" if self.schema_id is None else f" {self.schema_id}"
            raise Unreadable(bad, f"it does not begin with the number{wanted} of a schema in a registry")
        return pc.binary_slice(values, PREFIX, None)
