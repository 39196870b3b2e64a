"""Fills disks when a campaign asks for it, and replaces files that a crash spoils."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

ROOM = "75%"


class Disks:
    """``paths``: by broker. Mounting needs root; after the start, ``is_possible`` says whether it worked."""

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self.paths = paths
        self.is_possible = False

    def fill(self, broker: int) -> None:
        """Fills the disk: no further write succeeds."""
        path = self.paths[broker]
        while True:  # The disk may hold more by now: then the kernel refuses to shrink it.
            found = os.statvfs(path)
            used = (found.f_blocks - found.f_bfree) * found.f_bsize
            if self._mount(path, f"remount,size={used + found.f_bsize}"):
                return

    def free(self, broker: int) -> None:
        """Gives the disk room again."""
        self._mount(self.paths[broker], f"remount,size={ROOM}")

    def __enter__(self) -> Self:
        done = []
        for path in self.paths.values():  # One disk may be mounted on another.
            path.mkdir(parents=True, exist_ok=True)
            done.append(os.geteuid() == 0 and self._mount(path, f"size={ROOM}"))
        self.is_possible = bool(done) and all(done)
        return self

    def _mount(self, path: Path, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for path in reversed(list(self.paths.values())):
            if os.path.ismount(path):
                subprocess.run(["umount", "-l", str(path)], check=False)


@contextlib.contextmanager
def another_file(path: Path) -> Iterator[Path]:
    """Yields a copy to spoil, which then replaces the file.

    The file itself must not be changed: a ``sendfile`` under way sends the file's own pages, but a crashed machine
    sends no spoiled bytes.
    """
    copy = path.with_name(f"{path.name}.spoiled")
    shutil.copy2(path, copy)
    try:
        yield copy
    finally:
        copy.replace(path)
