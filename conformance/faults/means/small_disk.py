"""A disk that is soon full: a small tmpfs for a broker.

Root mounts it. Other users get it in a user and mount namespace, which a waiting process holds open. The broker joins
that namespace by ``nsenter``, and tests look in through ``/proc/<pid>/root``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

BALLAST = "ballast"


class SmallDisk:
    """A tmpfs at ``path`` with room for ``size`` bytes; a file reserves as much again.

    It outlives the broker.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self._holder: subprocess.Popen[bytes] | None = None

    @property
    def wrapper(self) -> list[str]:
        """Returns the command prefix that lets a command see the disk."""
        if self._holder is None:
            return []
        return ["nsenter", "--preserve-credentials", "-U", "-m", "-t", str(self._holder.pid), "--"]

    @property
    def files(self) -> Path:
        """Returns the path under which a test sees the disk's files."""
        return self.path if self._holder is None else Path(f"/proc/{self._holder.pid}/root{self.path}")

    def make_room(self) -> None:
        """Doubles the room, as an operator would."""
        (self.files / BALLAST).unlink()

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True)
        if os.geteuid() != 0 or not self._mounts():
            self._hold()
            assert self._mounts(), (
                "a full disk needs a small tmpfs: run as root, or allow user namespaces "
                "(sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces > 0)"
            )
        (self.files / BALLAST).write_bytes(bytes(self.size))
        return self

    def _mounts(self) -> bool:
        options = f"size={2 * self.size},mode=777"
        return self._run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.path)) == 0

    def _hold(self) -> None:
        """Starts the process that keeps the namespace."""
        script = "echo ready; exec sleep infinity"
        command = ["unshare", "-Urm", "sh", "-c", script]
        self._holder = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        self._holder.stdout.readline()

    def _run(self, *command: str) -> int:
        return subprocess.run([*self.wrapper, *command], check=False).returncode

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._holder is None:
            self._run("umount", "-l", str(self.path))
        else:
            self._holder.kill()
            self._holder.wait()
            if self._holder.stdout is not None:
                self._holder.stdout.close()
