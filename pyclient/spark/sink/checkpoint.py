"""Finds the query of a checkpoint, for an abort without any message from a task."""

from __future__ import annotations

import json
import logging

from pyarrow import fs  # type: ignore[import-untyped,unused-ignore]

log = logging.getLogger("pyclient.spark")


def query_of(location: str | None) -> str | None:
    """Returns the id of the query with that checkpoint; None if this process cannot read it."""
    if location is None:
        return None
    try:
        is_uri = ":/" in location
        files, path = fs.FileSystem.from_uri(location) if is_uri else (fs.LocalFileSystem(), location)
        with files.open_input_stream(f"{path.rstrip('/')}/metadata") as file:
            return str(json.loads(file.read())["id"])
    except (OSError, ValueError, KeyError) as error:
        log.info("the query of the checkpoint %s is unknown: %s", location, error)
        return None
