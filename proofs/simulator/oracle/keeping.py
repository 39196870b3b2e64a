"""Checks what must stay on the disks, whatever happens to the coordination store.

* The folder of a log with records may be removed only for three reasons (``kept``). The deletion of its topic was
  noted, the replica has moved to other brokers, or another folder of the machine has the same records. A copy for a
  move starts again if its log was truncated: only the committed records of such a copy must still exist somewhere.
* A log that is opened again is not emptied (``kept``): a machine that has not lost its disk has the records that it
  had.
* A topic whose nodes a stranger has removed or garbled is *estranged*: perhaps no broker leads or follows it any
  longer. At the end, every replica that was in sync has every acknowledged record on its disk (``kept``). Brokers that
  know the topic may continue to use it. A replica that has left the in-sync set since then may lack records.
* If the whole store went back in time, at least one machine has every acknowledged record: it is no longer known which
  replicas are in sync.
"""

from __future__ import annotations

from functools import partial

from proofs.simulator.machines.cluster import Machine
from proofs.simulator.machines.disk import Disk
from proofs.simulator.oracle.books import Books
from proofs.simulator.oracle.chain import Chain
from proofs.simulator.oracle.incarnations import real
from pybroker.cluster.metadata import znodes
from pybroker.cluster.nodes.loading import NOT_OURS
from pybroker.log.dirs.folders import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX, parse_folder
from pybroker.log.files import partition_metadata
from pybroker.log.log import Log
from pybroker.topic_partition import TopicPartition

Place = tuple[int, TopicPartition]
UNKNOWN = znodes.Assignment(())
MARKS = (DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX)


class Keeping:
    """Watches the disks of one history."""

    def __init__(self, oracle: Books) -> None:
        self.oracle = oracle
        self.estranged: dict[TopicPartition, tuple[int, ...]] = {}
        """The replicas that were in sync, or eligible, when the topic's nodes disappeared."""
        self.away: set[Place] = set()
        """Replicas that the store has placed elsewhere."""
        self._excused: set[Place] = set()
        """Logs that may start again once, because their machine has lost something."""
        self.is_adrift = False
        """The store has gone back in time, or is empty."""

    def watch(self, machine: Machine) -> None:
        """Watches for every folder that is removed from the machine's disk."""
        machine.disk.on_removal = partial(self._removed, machine)

    # What happens

    def estrange(self, key: TopicPartition, holders: tuple[int, ...]) -> None:
        """Notes that the nodes of that partition are gone or unreadable."""
        self.estranged.setdefault(key, holders)

    def state_written(self, tp: TopicPartition, topic_id: bytes | None, data: bytes) -> None:
        """Reacts to a partition's new state. ``topic_id``: the id in its topic's node, None: unreadable."""
        try:
            state = znodes.decode_state(tp.partition, data, 0, UNKNOWN)
        except NOT_OURS:
            return
        id_of = self.oracle.incarnations.id_of
        known = [key for key in self.oracle.incarnations.all_of(tp) if topic_id in (None, id_of(key))]
        for key in known[-1:]:
            if key in self.estranged:
                self.estranged[key] = tuple(id for id in self.estranged[key] if id in (*state.isr, *state.elr))

    def is_hopeless(self, tp: TopicPartition) -> bool:
        """Returns whether clients need not be able to write to this partition any longer."""
        return self.is_adrift or any(real(key) == tp for key in self.estranged)

    def lost(self, node_id: int) -> None:
        """Notes that a machine has lost its unsynced data. It need not have those records any longer."""
        self._excused.update(place for place in self.oracle.chains if place[0] == node_id)
        for key, holders in self.estranged.items():
            self.estranged[key] = tuple(id for id in holders if id != node_id)

    def guards(self, node_id: int) -> bool:
        """Returns whether the machine may be the last one with the records of a partition whose nodes are gone or
        unreadable.
        """
        return self.is_adrift or any(holders == (node_id,) for holders in self.estranged.values())

    def _removed(self, machine: Machine, path: str) -> None:
        key = self._key_of(machine.disk, path)
        if key is None or self.oracle.incarnations.is_deleted(key):
            return
        place = (machine.node_id, key)
        chain = log_on(machine.disk, path, self.oracle.committed.get(key))
        if place in self.away:
            self.oracle.chains.pop(place, None)
        elif chain.end and not self._has_more(machine.disk, path, key, chain):
            self.oracle.report("kept", f"{key}: broker {machine.node_id} removes {path} of a topic that exists")

    def _has_more(self, disk: Disk, path: str, key: TopicPartition, chain: Chain) -> bool:
        others = [each for each in self._folders(disk, key) if each != path]
        before = self.oracle.committed.get(key)
        is_copy = path.endswith(FUTURE_SUFFIX)
        end = chain.common_end(before or Chain()) if is_copy else chain.end
        return end == 0 or any(log_on(disk, each, before).agrees(chain, end) for each in others)

    def reopened(self, place: Place, before: Chain, log: Log) -> None:
        """Checks a log that a broker has opened again."""
        node_id, key = place
        is_excused = place in self._excused or place in self.away or self.oracle.incarnations.is_deleted(key)
        self._excused.discard(place)
        if before.end and not log.log_end_offset and not is_excused:
            self.oracle.report("kept", f"{key}: broker {node_id} starts again, but had {before}")

    # At the end

    def check_end(self) -> None:
        """Checks that acknowledged records are on the disks."""
        for key, end in self.oracle.acked.items():
            if self.oracle.incarnations.is_deleted(key):
                continue
            if self.is_adrift and not any(self._has(machine, key, end) for machine in self._machines()):
                self.oracle.fail("kept", f"{key}: no disk has all acknowledged records below {end}")
            for node_id in self.estranged.get(key, ()):
                machine = self.oracle.cluster.machines[node_id]
                if not self._has(machine, key, end):
                    self.oracle.fail("kept", f"{key}: broker {node_id} was in sync, but lacks records below {end}")

    def _machines(self) -> list[Machine]:
        return list(self.oracle.cluster.machines.values())

    def _has(self, machine: Machine, key: TopicPartition, end: int) -> bool:
        committed = self.oracle.committed[key]
        disk = machine.disk
        return any(log_on(disk, path, committed).agrees(committed, end) for path in self._folders(disk, key))

    def _folders(self, disk: Disk, key: TopicPartition) -> list[str]:
        """Returns the folders of that partition on that disk."""
        folders = [path for path, node in disk.names.items() if node is None]
        return [path for path in folders if self._key_of(disk, path) == key]

    def _key_of(self, disk: Disk, path: str) -> TopicPartition | None:
        """Returns the partition of the log in a folder, by the topic id in it."""
        mark = disk.names.get(f"{path}/{partition_metadata.FILE_NAME}")
        if mark is None:
            return None
        try:
            topic_id = partition_metadata.decode(bytes(mark.data))
        except ValueError:
            return None
        index = _index_of(path.rpartition("/")[2])
        return None if index is None else self.oracle.incarnations.find(topic_id, index)


def _index_of(folder: str) -> int | None:
    """Parses the partition of ``t-0``, and of ``t-0.4f1d…-delete`` or the like."""
    found = parse_folder(folder.partition(".")[0] if folder.endswith(MARKS) else folder)
    return None if found is None else found.partition


def log_on(disk: Disk, path: str, before: Chain | None = None) -> Chain:
    """Returns the records in a folder. ``before`` stands in for what retention has removed."""
    names = sorted(name for name in disk.children.get(path, ()) if name.endswith(".log"))
    chain = Chain()
    if names and before is not None:
        chain.take(before, int(names[0][:20]))
    for name in names:
        node = disk.names[f"{path}/{name}"]
        if node is not None:
            chain.add_all(bytes(node.data))
    return chain
