"""The JSON files that Kafka's tools take: ``{"partitions": [{"topic": …, "partition": …}], "version": 1}``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pybroker.cli.common.verbs import Failure


def read_json(path: str) -> dict[str, Any]:
    """Returns a file's document. Raises Failure."""
    try:
        found = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise Failure(f"{path}: {why}: not readable as JSON") from error
    if not isinstance(found, dict):
        raise Failure(f"{path}: not a JSON object")
    return found


def partitions_of_file(path: str) -> list[dict[str, Any]]:
    """Returns the ``partitions`` of the file. Raises Failure."""
    rows = read_json(path).get("partitions")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Failure(f'{path}: "partitions" is missing: a list of objects with topic and partition')
    return rows
