"""Small disks: a tmpfs of a few MiB in a mount namespace of its own, for root and for anybody else.

A user namespace gives even an ordinary user the right to mount there. A holder process keeps the namespace, and so the disk,
alive while brokers that were started in it come and go.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self


class SmallDisk:
    """A folder that is a disk of its own for processes started with ``wrapper``."""

    def __init__(self, folder: Path, size_kib: int) -> None:
        self.folder = folder
        self.size_kib = size_kib
        self.holder: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        mount = f"mount -t tmpfs -o size={self.size_kib}k tmpfs '{self.folder}' && echo mounted && exec sleep 3600"
        command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]
        self.holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.holder.stdout is not None
        if self.holder.stdout.readline() != b"mounted\n":
            _, errors = self.holder.communicate()
            raise OSError(f"no small disk: {errors.decode()}")
        return self

    @property
    def wrapper(self) -> list[str]:
        """The start of a command line that runs within."""
        assert self.holder is not None
        target = ["--target", str(self.holder.pid)]
        return ["nsenter", *target, "--user", "--mount", "--preserve-credentials", "--"]

    @property
    def inside(self) -> Path:
        """The folder as seen from outside the namespace."""
        assert self.holder is not None
        return Path(f"/proc/{self.holder.pid}/root{self.folder}")

    def grow(self, size_kib: int) -> None:
        """Gives the disk more space."""
        remount = f"mount -o remount,size={size_kib}k '{self.folder}'"
        subprocess.run([*self.wrapper, "sh", "-c", remount], check=True, timeout=10)

    def free_kib(self) -> int:
        found = os.statvfs(self.inside)
        return found.f_bavail * found.f_frsize // 1024

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.holder is not None:
            self.holder.send_signal(signal.SIGKILL)
            self.holder.communicate()
