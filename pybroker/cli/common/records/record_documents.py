"""A record as a JSON document. ``consume -o jsonl`` writes such documents, ``produce --input jsonl`` reads them.

    {"topic", "partition", "offset", "timestamp" (ms), "key", "value", "headers": [[name, value], …]}

Bytes that are not UTF-8 are ``{"base64": "…"}``; None is null.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cy.consume.records import Record


SOURCE = re.compile(r"[a-zA-Z0-9._-]{1,249}")
MOST_PARTITIONS = (1 << 31) - 1
NO_TIME = -1
LATEST_MS = (1 << 63) - 1
BASE64 = '{"base64": "…"}'


class Given(NamedTuple):
    """A record to send."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] = []
    partition: int | None = None
    timestamp: int | None = None
    source: str | None = None
    """The topic from which the record comes, if the document names it."""


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
    """Returns the record of a line. A value that is not text, null or base64 is sent as JSON. Raises ValueError."""
    try:
        return record_of(json.loads(line))
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8: write bytes that are not text as {BASE64}") from None


def record_of(row: Any) -> Given:
    """Returns the record of a row. Raises ValueError."""
    if not isinstance(row, dict) or "value" not in row:
        raise ValueError('a record must be an object with "value"')
    return Given(
        taken(row["value"]),
        taken(row.get("key")),
        list(headers_of(row.get("headers") or [])),
        number(row, "partition", 0, MOST_PARTITIONS),
        number(row, "timestamp", NO_TIME, LATEST_MS),
        source_of(row),
    )


def source_of(row: dict[str, Any]) -> str | None:
    """Returns the topic that the row names; None if it is not a valid topic name."""
    name = row.get("topic")
    return name if isinstance(name, str) and SOURCE.fullmatch(name) else None


def headers_of(given: Any) -> Iterator[tuple[str, bytes | None]]:
    """Yields the record's headers. Raises ValueError."""
    for each in given.items() if isinstance(given, dict) else given if isinstance(given, list) else [None]:
        if not isinstance(each, (list, tuple)) or len(each) != 2 or not isinstance(each[0], str):
            raise ValueError('"headers" is [[name, value], …] or {name: value, …}')
        utf8(each[0])
        yield each[0], taken(each[1])


def taken(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, dict) and set(value) == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"base64: {error}") from error
    return utf8(json.dumps(value, ensure_ascii=False))


def utf8(text: str) -> bytes:
    """Encodes a text in UTF-8. Raises ValueError for half a character: ``"\\ud800"``."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{text[error.start : error.end]!a} is half a character: UTF-8 has whole ones") from None


def number(row: dict[str, Any], name: str, least: int, most: int) -> int | None:
    """Returns a number of the row, None if missing. Raises ValueError unless it is from ``least`` to ``most``."""
    value = row.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and least <= value <= most):
        return value
    raise ValueError(f'"{name}" is a number from {least} to {most}, not {value!r:.40}')
