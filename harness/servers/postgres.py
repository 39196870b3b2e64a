"""Runs a PostgreSQL server for tests, on a socket in its own folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIMEOUT_S = 120


def tool(name: str) -> str:
    """Returns the path of a program of the server. Debian keeps them out of the PATH."""
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))
    found = shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", "")]))
    assert found, f"{name} is missing: sh install.sh tests"
    return found


def as_server(*command: object) -> None:
    """Runs a command, as user postgres if we are root, because PostgreSQL refuses to run as root."""
    user: dict[str, Any] = {"user": "postgres"} if os.getuid() == 0 else {}
    subprocess.run(list(map(str, command)), check=True, timeout=TIMEOUT_S, cwd="/", stdout=subprocess.DEVNULL, **user)


@contextmanager
def server() -> Iterator[str]:
    """Runs a server and yields its URL. It stays out of pytest's folders, which are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as name:
        if os.getuid() == 0:
            shutil.chown(name, "postgres")
        data = Path(name) / "data"
        as_server(tool("initdb"), "--auth=trust", "--username=postgres", "--no-sync", "-D", data)
        options = f"-c listen_addresses='' -c unix_socket_directories={name}"
        as_server(tool("pg_ctl"), "-w", "-D", data, "-l", Path(name) / "log", "-o", options, "start")
        try:
            yield f"postgresql:///postgres?host={name}&user=postgres"
        finally:
            as_server(tool("pg_ctl"), "-w", "-m", "immediate", "-D", data, "stop")
