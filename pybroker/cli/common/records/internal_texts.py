"""Keys and values of Kafka's own records as DumpLogSegments writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cy.wire.buffer import DecodeError
from pybroker.cli.common.records.internal_records import decode

if TYPE_CHECKING:
    from cy.batch import Record
    from pybroker.cli.common.records.segment_text import Contents

TOMBSTONE = "<DELETE>"


def decoder(types: dict[int, str]) -> Contents:
    """Returns a function that makes text of key and value."""

    def texts(record: Record) -> tuple[str | None, str | None]:
        try:
            found = decode(types, record.key, record.value)
        except DecodeError as error:
            return f"Error at offset {record.offset}, skipping. {error}", None
        if found is None:
            kind = int.from_bytes((record.key or b"")[:2], "big", signed=True)
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        return text(found.key, "type"), TOMBSTONE if found.value is None else text(found.value, "version")

    return texts


def text(document: dict[str, Any], number: str) -> str:
    """Returns a document as DumpLogSegments writes it: type and version are strings."""
    shown = {number: str(document[number]), "data": document["data"]}
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
