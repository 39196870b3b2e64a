"""A record as a JSON document, for ``consume -o jsonl`` and ``produce --input jsonl``, which reads it again.

    {"topic", "partition", "offset", "timestamp" (ms), "key", "value", "headers": [[name, value], …]}

Bytes that are not UTF-8 are ``{"base64": "…"}``; None is null.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cy.records import Record


class Given(NamedTuple):
    """A record to send."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] = []
    partition: int | None = None
    timestamp: int | None = None


def document(record: Record) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown(record.key),
        "value": shown(record.value),
        "headers": [[name, shown(value)] for name, value in record.headers],
    }


def shown(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def given(line: bytes) -> Given:
    """The record of a line; what is neither text nor null nor base64 is sent as JSON. Raises ValueError."""
    row = json.loads(line)
    if not isinstance(row, dict) or "value" not in row:
        raise ValueError('a record is an object with "value"')
    headers = row.get("headers") or []
    listed = headers.items() if isinstance(headers, dict) else headers
    return Given(
        taken(row["value"]),
        taken(row.get("key")),
        [(str(name), taken(value)) for name, value in listed],
        number(row, "partition"),
        number(row, "timestamp"),
    )


def taken(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"base64: {error}") from error
    return json.dumps(value, ensure_ascii=False).encode()


def number(row: dict[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f'"{name}" is a number, not {value!r}')
    return value
