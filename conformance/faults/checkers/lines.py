"""Reads the lines of a file that another process writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


class Lines:
    """Returns complete lines, each once; ``taken``: how many bytes the caller has processed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.taken = 0

    def new(self) -> Iterator[bytes]:
        """Returns the new lines, with their line ends."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self.taken)
            data = file.read()
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            yield line
            self.taken += len(line)
