"""S46, S47: each record is in a real database exactly once, though the consumer is killed again and again."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import pybroker
from docs.tests.blocks import ROOT
from pybroker.embedded import environment
from pyclient import Admin, Producer

EXAMPLE = ROOT / "docs" / "examples" / "into_database.py"
DEADLINE_S = 120
PARTITIONS, ROUNDS, RECORDS = 3, 4, 3000
COUNTS = {"rows": "SELECT count(*) FROM entry", "totals": "SELECT coalesce(sum(count), 0) FROM total"}
DISTINCT = "SELECT count(DISTINCT value) FROM entry"
Query = Callable[[str], int]


def postgres_tool(name: str) -> str:
    """A program of the server; Debian keeps them out of the way."""
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))
    found = shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", "")]))
    assert found, f"{name} is missing: sh install.sh tests"
    return found


def as_server(*command: object) -> None:
    """PostgreSQL refuses to run as root."""
    user = {"user": "postgres"} if os.getuid() == 0 else {}
    subprocess.run(
        list(map(str, command)), check=True, timeout=DEADLINE_S, cwd="/", stdout=subprocess.DEVNULL, **user
    )


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The URL of a server that listens on a socket in its folder, which pytest would close to other users."""
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as name:
        if os.getuid() == 0:
            shutil.chown(name, "postgres")
        yield from served(Path(name))


def served(folder: Path) -> Iterator[str]:
    """While the server runs."""
    data = folder / "data"
    as_server(postgres_tool("initdb"), "--auth=trust", "--username=postgres", "--no-sync", "-D", data)
    options = f"-c listen_addresses='' -c unix_socket_directories={folder}"
    as_server(postgres_tool("pg_ctl"), "-w", "-D", data, "-l", folder / "log", "-o", options, "start")
    yield f"postgresql:///postgres?host={folder}&user=postgres"
    as_server(postgres_tool("pg_ctl"), "-w", "-m", "immediate", "-D", data, "stop")


def asked_sqlite(file: Path) -> Query:
    def ask(query: str) -> int:
        with closing(sqlite3.connect(file, timeout=60)) as connection:
            return int(connection.execute(query).fetchone()[0])

    return ask


def asked_postgres(url: str) -> Query:
    import psycopg

    def ask(query: str) -> int:
        with psycopg.connect(url) as connection:
            row: Any = connection.execute(query).fetchone()
            return int(row[0])

    return ask


def await_count(ask: Query, query: str, wanted: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while (found := _count(ask, query)) < wanted:
        assert process.poll() is None, f"it ended with {process.returncode}"
        assert time.monotonic() < deadline, f"{found} of {wanted} are there"
        time.sleep(0.01)


def _count(ask: Query, query: str) -> int:
    try:
        return ask(query)
    except Exception as error:
        if "no such table" in str(error) or "does not exist" in str(error):
            return 0
        raise


def run(bootstrap: str, url: str, way: str, ask: Query) -> None:
    """Writes, and kills the reader in the midst of each round but the last."""
    with Admin(bootstrap) as admin:
        admin.create_topics("lines", num_partitions=PARTITIONS)
    command = [sys.executable, EXAMPLE, bootstrap, "lines", url, "--keep", way]
    with Producer(bootstrap) as producer:
        for each in range(ROUNDS):
            process = subprocess.Popen(command, env=environment())
            try:
                values = [b"%d" % (each * RECORDS + number) for number in range(RECORDS)]
                for partition in range(PARTITIONS):
                    producer.send_many("lines", values[partition::PARTITIONS], partition=partition).result(DEADLINE_S)
                last = each == ROUNDS - 1
                await_count(ask, COUNTS[way], (each + 1) * RECORDS if last else each * RECORDS + 1, process)
                if last:
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(DEADLINE_S) == 0
            finally:
                process.kill()
                process.wait()


@pytest.mark.parametrize("way", list(COUNTS))
def test_each_record_is_in_sqlite_once(tmp_path: Path, way: str) -> None:
    file = tmp_path / "lines.db"
    ask = asked_sqlite(file)
    with pybroker.run() as broker:
        run(broker.bootstrap_servers, f"sqlite:{file}", way, ask)
    assert ask(COUNTS[way]) == ROUNDS * RECORDS
    assert way == "totals" or ask(DISTINCT) == ROUNDS * RECORDS


@pytest.mark.parametrize("way", list(COUNTS))
def test_each_record_is_in_postgresql_once(postgres: str, way: str) -> None:
    ask = asked_postgres(postgres)
    with pybroker.run() as broker:
        run(broker.bootstrap_servers, postgres, way, ask)
    assert ask(COUNTS[way]) == ROUNDS * RECORDS
    assert way == "totals" or ask(DISTINCT) == ROUNDS * RECORDS
