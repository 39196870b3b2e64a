"""Faults of one disk of several: it fills up, it is not mounted, or replicas move between disks.

A broker takes a disk that it cannot write to offline until the next start. A disk that is not mounted is an empty
folder at the next start. Its records are not lost, and none of its logs starts again elsewhere (``kept``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from proofs.simulator.faults.surroundings import Surroundings
from proofs.simulator.machines.broker import LOG_DIR, SECOND_DIR
from proofs.simulator.machines.disk import Files
from pyclient.protocol.errors import KafkaError


class DiskFaults:
    """Chooses faults of the machines' disks at random."""

    def __init__(self, faults: Surroundings) -> None:
        self.faults = faults
        self.cluster = faults.cluster
        self.rng = faults.rng
        self._away: dict[int, Files] = {}
        """By machine: the content of the second disk while it is not mounted."""
        self.kinds: dict[str, Callable[[], None]] = {
            "move log": self._move,
            "full disk": self._fill,
            "unmounted disk": self._unmount,
        }

    def end(self) -> None:
        """Brings all disks back, with free space, and restarts brokers that took one offline."""
        for node_id, machine in self.cluster.machines.items():
            if node_id in self._away or machine.disk.full or self._has_failed(node_id):
                self._mend(node_id)

    def _has_failed(self, node_id: int) -> bool:
        process = self.cluster.machines[node_id].process
        logs = None if process is None or process.broker is None else getattr(process.broker, "logs", None)
        return logs is not None and any(log_dir.offline for log_dir in logs.dirs)

    def _mend(self, node_id: int) -> None:
        self.cluster.note(f"the disks of broker {node_id} are as they were")
        self.cluster.kill(node_id)
        disk = self.cluster.machines[node_id].disk
        disk.full.clear()
        files = self._away.pop(node_id, None)
        if files is not None:
            disk.detach(SECOND_DIR)
            disk.attach(files)
        self.cluster.start(node_id)

    def _move(self) -> None:
        """Moves a replica to one of the disks, perhaps to its own."""
        process = self.cluster.serving(self.faults.some_broker())
        if process is not None:
            path = self.rng.choice((LOG_DIR, SECOND_DIR))
            found = [partition.topic_partition for partition in process.broker.replicas.partitions]
            if found:
                tp = self.rng.choice(found)
                self.cluster.note(f"{tp} of broker {process.node_id} moves to {path}")
                process.loop.create_task(_started(process.broker.replicas.moves, tp, path))

    def _fill(self) -> None:
        node_id = self.faults.some_broker()
        path = self.rng.choice((LOG_DIR, SECOND_DIR))
        self.cluster.note(f"{path} of broker {node_id} is full")
        self.cluster.machines[node_id].disk.full.add(path)
        self.faults.later(lambda: self._mend(node_id), 0.5)

    def _unmount(self) -> None:
        """Starts the machine without its second disk, and later with it."""
        node_id = self.faults.some_broker()
        if node_id not in self._away:
            self.cluster.note(f"broker {node_id} starts without its second disk")
            self.cluster.kill(node_id)
            self._away[node_id] = self.cluster.machines[node_id].disk.detach(SECOND_DIR)
            self.cluster.start(node_id)
            self.faults.later(lambda: self._mend(node_id), 0.6)


async def _started(moves: Any, tp: Any, path: str) -> None:
    with contextlib.suppress(KafkaError):
        moves.start(tp, path)
