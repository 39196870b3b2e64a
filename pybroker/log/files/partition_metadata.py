"""``partition.metadata``: the topic id of the log in this folder (KIP-516). A re-created topic has another id.

Format (Kafka's, text): ``version: 0`` and ``topic_id: <url-safe base64 of 16 bytes, unpadded>``, a
line each.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os

from pybroker.log.files.storage import Storage

FILE_NAME = "partition.metadata"
ZERO_ID = bytes(16)

logger = logging.getLogger(__name__)


def encode(topic_id: bytes) -> bytes:
    """Returns the file's content."""
    text = base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
    return f"version: 0\ntopic_id: {text}\n".encode()


def decode(data: bytes) -> bytes:
    """Returns the topic id. Raises ValueError if the content is malformed."""
    fields = dict(line.split(": ", 1) for line in data.decode("utf-8").splitlines())
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("expected version 0 and a topic_id")
    try:
        topic_id = base64.urlsafe_b64decode(fields["topic_id"] + "==")
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    if len(topic_id) != 16:
        raise ValueError(f"a topic id has 16 bytes, not {len(topic_id)}")
    return topic_id


def read(storage: Storage, folder: str) -> bytes:
    """Returns the topic id in a log's folder; ``ZERO_ID`` if the folder does not have it."""
    try:
        return decode(storage.read(os.path.join(folder, FILE_NAME)))
    except FileNotFoundError:
        return ZERO_ID
    except ValueError as error:
        logger.warning("%s/%s is malformed and ignored: %s", folder, FILE_NAME, error)
        return ZERO_ID


def write(storage: Storage, folder: str, topic_id: bytes) -> None:
    """Writes the file without a sync; it is synced together with the log's first records."""
    storage.write(os.path.join(folder, FILE_NAME), encode(topic_id))
