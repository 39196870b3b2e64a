"""Disks that are full when a campaign says so, and files that come back from a crash as others. Each broker has a
tmpfs, which is made no larger than what it holds.
"""

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
    """``paths``: by broker. Mounting needs root; ``is_possible`` after the start says whether it went."""

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self.paths = paths
        self.is_possible = False

    def fill(self, broker: int) -> None:
        """Nothing more can be written there."""
        path = self.paths[broker]
        while True:  # it may have grown meanwhile: then the kernel refuses
            found = os.statvfs(path)
            used = (found.f_blocks - found.f_bfree) * found.f_bsize
            if self._mount(path, f"remount,size={used + found.f_bsize}"):
                return

    def free(self, broker: int) -> None:
        """There is room again."""
        self._mount(self.paths[broker], f"remount,size={ROOM}")

    def __enter__(self) -> Self:
        done = []
        for path in self.paths.values():  # one may lie on another
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
    """A copy to be spoiled, which is then the file. Its bytes that are on their way to a client by ``sendfile`` are its
    pages: a machine that crashes sends nothing of what it has spoiled.
    """
    copy = path.with_name(f"{path.name}.spoiled")
    shutil.copy2(path, copy)
    try:
        yield copy
    finally:
        copy.replace(path)
