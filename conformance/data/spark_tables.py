"""Tables that Spark's streaming file sink has written."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit


def committed_files(table: Path) -> list[str]:
    """Returns the files of committed batches, each once. The folder may also have files of abandoned attempts.

    Each batch leaves a log of its own in ``_spark_metadata``; every tenth (``9.compact``) repeats what those before it
    say.
    """
    logs = (table / "_spark_metadata").glob("[0-9]*")
    entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
    return sorted({unquote(urlsplit(entry["path"]).path) for entry in entries})
