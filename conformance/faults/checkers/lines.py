"""The lines of a file that another process writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


class Lines:
    """Whole lines, each given once; ``taken``: how many bytes the caller is done with."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.taken = 0

    def new(self) -> Iterator[bytes]:
        """The lines that have come, with their ends."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self.taken)
            data = file.read()
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            yield line
            self.taken += len(line)
