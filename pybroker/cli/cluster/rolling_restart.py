"""Restarts the brokers of one data folder one after the other, so that no partition is unavailable for long.

A broker is stopped in order (it hands its leaderships over first), and only while every replica of every partition is
in sync. The supervisor starts it again. The next broker is stopped when all replicas are in sync again. At the end, the
preferred leaders lead again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.verbs import Failure
from pybroker.cli.partition import described
from pybroker.data_folder import LOCK, PID, is_running, pid_in
from pybroker.log.files.meta_properties import FILE_NAME, decode

if TYPE_CHECKING:
    from pyclient import Admin

POLL_S = 0.1


def not_in_sync(admin: Admin) -> list[str]:
    """Returns the partitions with a replica that is out of sync."""
    return [f"{name}-{each.partition}" for name, each in described(admin, ()) if len(each.isr) < len(each.replicas)]


def led_by_others(admin: Admin) -> list[str]:
    """Elects first replicas as leaders; returns the partitions that other replicas led before."""
    partitions = [(name, each) for name, each in described(admin, ()) if each.replicas]
    found = [f"{name}-{each.partition}" for name, each in partitions if each.leader != each.replicas[0]]
    if found:
        admin.elect_leaders(check=False)
    return found


def _is_child(pid: int, parent: int) -> bool:
    """Says whether the process runs as that parent's child; on systems that hide parents, whether it runs."""
    if pid == 0:
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return not Path("/proc/self").exists() and is_running(pid)
    return int(stat.rpartition(")")[2].split()[1]) == parent


class RollingRestart:
    """Restarts the brokers whose pid files are in ``root``. Calls ``tell`` for each."""

    def __init__(self, root: Path, cluster: Cluster, timeout_s: float, tell: Callable[[str], None]) -> None:
        self._root = root
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._tell = tell
        self._missing = ""
        """The text about what the last answer lacked."""

    def run(self) -> None:
        """Restarts the brokers. Raises Failure if a broker would not come back, or does not come back in time."""
        brokers = self._brokers()
        if not brokers:
            raise Failure(f"{self._root}: no broker runs here: --data-dir names another folder")
        with self._cluster.admin() as admin:
            found = admin.describe_cluster()
        self._check_cluster(brokers, found.cluster_id)
        self._cluster = self._cluster._replace(bootstrap=",".join(f"{each.host}:{each.port}" for each in found.brokers))
        self._until(self._is_in_sync, "every replica to be in sync")
        brokers = self._brokers()  # includes those that were just being started again
        controller = found.controller_id
        for node_id in sorted(brokers, key=lambda each: (each == controller, each)):
            self._restart(node_id)
        self._until(lambda: self._ask(led_by_others), "the first replicas to lead again")
        for each in found.brokers:
            if each.id not in brokers:
                why = f"the supervisor of {self._root} has not started it"
                self._tell(f"broker {each.id} was left as it is: {why}. Stop it and run its own command again")

    def _check_cluster(self, brokers: list[int], cluster_id: str | None) -> None:
        """Checks that the brokers that answer belong to the cluster of the folder. With ``log.dirs`` the folder does
        not show its cluster.
        """
        for node_id in brokers:
            file = self._root / f"broker-{node_id}" / FILE_NAME
            owner = decode(file.read_bytes()).cluster_id if file.exists() else cluster_id
            if owner != cluster_id:
                answers = f"{self._cluster.bootstrap} answers for cluster {cluster_id}"
                raise Failure(f"{self._root} belongs to cluster {owner}, {answers}: -b names the brokers of the folder")

    def _brokers(self) -> list[int]:
        """Returns the brokers that the folder's supervisor would restart."""
        supervisor = pid_in(self._root / LOCK)
        found = {
            int(file.parent.name.removeprefix("broker-")): pid_in(file)
            for file in self._root.glob(f"broker-*/{PID}")
            if file.parent.name.removeprefix("broker-").isdecimal()
        }
        if supervisor in found.values():
            raise Failure(f"{self._root} has a single broker, process {supervisor}: no supervisor would start it again")
        return [node_id for node_id, pid in found.items() if _is_child(pid, supervisor)]

    def _restart(self, node_id: int) -> None:
        file = self._root / f"broker-{node_id}" / PID
        self._until(self._is_in_sync, "every replica to be in sync")
        self._until(lambda: self._is_ours(pid_in(file)), f"broker {node_id} to run")
        before, began = pid_in(file), time.monotonic()
        if not self._is_ours(before):
            raise Failure(f"broker {node_id} ended by itself just now: run this again")
        try:
            os.kill(before, signal.SIGTERM)
        except OSError as error:
            raise Failure(f"cannot stop broker {node_id} (process {before}): {error.strerror}") from error
        self._until(lambda: pid_in(file) not in (0, before), f"broker {node_id} to start again")
        self._until(lambda: self._is_there(node_id), f"broker {node_id} to be registered")
        self._until(self._is_in_sync, "every replica to be in sync")
        took_s = time.monotonic() - began
        self._tell(f"broker {node_id}: process {before} is now {pid_in(file)}, in sync after {took_s:.1f} s")

    def _is_ours(self, pid: int) -> bool:
        """Says whether the supervisor has started the process. A pid file may be stale, and a signal to pid 0 would go
        to our own process group.
        """
        return _is_child(pid, pid_in(self._root / LOCK))

    def _is_there(self, node_id: int) -> bool:
        return self._ask(
            lambda admin: [] if node_id in {each.id for each in admin.describe_cluster().brokers} else [f"{node_id}"]
        )

    def _is_in_sync(self) -> bool:
        return self._ask(not_in_sync)

    def _ask(self, missing: Callable[[Admin], list[str]]) -> bool:
        """Says whether a new client finds nothing missing. An old client might know only the broker that is down."""
        from pyclient.errors import KafkaError

        try:
            with self._cluster.admin() as admin:
                found = missing(admin)
        except (KafkaError, TimeoutError) as error:
            found = [str(error)]
        self._missing = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        return not found

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._timeout_s
        self._missing = ""
        while not condition():
            if time.monotonic() > deadline:
                missing = f"; missing: {self._missing}" if self._missing else ""
                raise Failure(f"waited {self._timeout_s:g} s in vain for {what}{missing}")
            time.sleep(POLL_S)
