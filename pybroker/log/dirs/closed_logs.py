"""``.pybroker_closed_logs``: the state of a log dir's logs when they were closed.

A clean stop writes the file. The next start reads it, and removes it together with the clean-shutdown marker. A log
whose folder has not changed is opened from it, without reading its files (``reopening``). Kafka ignores the file.

The file is used only if the marker has the same broker epoch, because another broker or an older version may have used
the dir in between. A log's entry is used only if the names, sizes and times of all its files are the same. Otherwise
the log is opened as if the file did not mention it.

Format: two lines of JSON. The first has the version, the broker epoch, and the CRC-32C of the second. The second has
a list for each folder: the fields of ``ClosedLog``, bytes in hexadecimal digits.

Thread-safety: no state.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from cy.crc32c import crc32c
from pybroker.log.files.storage import Stamp, Storage

FILE_NAME = ".pybroker_closed_logs"
VERSION = 0
DIGEST_BYTES = 8

logger = logging.getLogger(__name__)


class ClosedLog(NamedTuple):
    """What a start needs to know of a log, beyond the names of its files."""

    files: str
    """A digest of the names, sizes and times of the log's files."""
    topic_id: bytes
    end_offset: int
    epochs: list[tuple[int, int]]
    """The start of each leader epoch."""
    producers: bytes
    """The producers in the form of a snapshot, empty if there are none."""
    max_timestamp: int
    """The largest timestamp of the active segment."""
    max_timestamp_offset: int
    names_synced: bool
    """True if the names in the log's folder are durable."""


def digest(files: Mapping[str, Stamp]) -> str:
    """Returns a digest of the names, sizes and times of the files in a folder."""
    text = "\n".join(f"{name} {size} {modified_ns}" for name, (size, modified_ns) in sorted(files.items()))
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=DIGEST_BYTES).hexdigest()


def encode(logs: Mapping[str, ClosedLog], broker_epoch: int) -> bytes:
    """Returns the file's content. ``logs`` has the logs by the names of their folders."""
    rows = {
        folder: [field.hex() if isinstance(field, bytes) else field for field in log]
        for folder, log in logs.items()
    }
    body = json.dumps(rows, separators=(",", ":")).encode()
    head = {"version": VERSION, "broker_epoch": broker_epoch, "crc32c": crc32c(body)}
    return json.dumps(head).encode() + b"\n" + body + b"\n"


def decode(data: bytes, broker_epoch: int) -> dict[str, ClosedLog]:
    """Returns the logs in a file. Raises ValueError if it is malformed, or of another broker epoch."""
    first, _, rest = data.partition(b"\n")
    body = rest.removesuffix(b"\n")
    expected = {"version": VERSION, "broker_epoch": broker_epoch, "crc32c": crc32c(body)}
    head = json.loads(first)
    if head != expected:
        raise ValueError(f"{head} is not {expected}")
    return {
        folder: ClosedLog(
            files,
            bytes.fromhex(topic_id),
            end_offset,
            [(epoch, start) for epoch, start in epochs],
            bytes.fromhex(producers),
            *others,
        )
        for folder, (files, topic_id, end_offset, epochs, producers, *others) in json.loads(body).items()
    }


def read(storage: Storage, path: str, broker_epoch: int) -> dict[str, ClosedLog]:
    """Returns the logs in the file at ``path``, none if it is missing, unreadable or invalid."""
    try:
        return decode(storage.read(path), broker_epoch)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        logger.warning("%s is ignored, and the logs are read instead: %s", path, error)
        return {}
