"""What must hold after every event, whatever has happened.

* ``agreement``   a replica's log below its high watermark equals the committed log
* ``durability``  an elected leader has all committed records; at the end, so has every replica
* ``isr``         every in-sync replica and every eligible leader replica (KIP-966) has them too
* ``min.insync``  a committed record is on at least ``min.insync.replicas`` replicas
* ``one leader``  no two brokers lead in the same leader epoch
* ``watermark``   a leader's high watermark never falls in an epoch
* ``ack``         a record that is acknowledged with acks=all is committed
* ``kept``        a log is deleted only if its deletion was noted (``keeping``)
* ``synced``      no broker counts records as synced that are not on its disk
* ``leads``       a broker whose loop hangs does not lead once its session must have expired (``hangs``)
* ``factor``      internal topics have as many replicas as are configured, however early a client comes
* ``retention``   records expire only if a limit says so (``retention``)
* ``restless``    no broker queries the store in a busy loop
* ``stops``       every broker can be stopped, whatever has happened
* ``crash``       production code raises nothing unexpected

*Committed* is what a leader's high watermark has ever passed, until the leader's log dir failed. Other replicas may
still learn what it passed in the event in which the log dir failed. The oracle reads the logs, the store's nodes and
the brokers' answers, and keeps its own record of them.

A machine that has lost unsynced data is *tainted*: its replicas may lack records, until the controller has removed them
from the ISR and from the eligible leaders.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from proofs.simulator.machines.cluster import Cluster, Process
from proofs.simulator.machines.store import Tree
from proofs.simulator.oracle.chain import Chain
from proofs.simulator.oracle.incarnations import Incarnations, real
from proofs.simulator.oracle.keeping import Keeping, log_on
from proofs.simulator.oracle.retention import Retention
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import NO_LEADER, PartitionImage
from pybroker.cluster.nodes.loading import NOT_OURS
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.log import Log
from pybroker.topic_partition import TopicPartition

ACKS_ALL = -1
_TOPICS = f"{znodes.TOPICS}/"


class Violation(Exception):
    """Raised if an invariant is broken."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


class Seen(NamedTuple):
    """A replica, as it was when the oracle last looked at it."""

    log: Log
    start: int
    end: int
    high_watermark: int
    epoch: int
    leads: bool


def _seen(partition: Any) -> Seen:
    log: Log = partition.log
    start, end, high_watermark = log.log_start_offset, log.log_end_offset, log.high_watermark
    return Seen(log, start, end, high_watermark, partition.leader_epoch, partition.is_leader)


class Oracle:
    """Watches one history, and reports each invariant that is broken."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.incarnations = Incarnations()
        self.keeping = Keeping(self)
        self.retention = Retention(self)
        self.chains: dict[tuple[int, TopicPartition], Chain] = {}
        """By node id and partition: the replica's log, also if its process has ended."""
        self.committed: dict[TopicPartition, Chain] = {}
        self.acked: dict[TopicPartition, int] = {}
        """The end offset of the records that were acknowledged with acks=all."""
        self.authority: dict[TopicPartition, PartitionImage] = {}
        """The partitions' state in the store."""
        self.tainted: set[tuple[int, TopicPartition]] = set()
        self.trimmed: set[TopicPartition] = set()
        """Partitions that may have lost records that were committed but not acknowledged."""
        self.min_isr: dict[str, int] = {}
        self.commits = 0
        self._seen: dict[tuple[int, TopicPartition], Seen] = {}
        self._logs: dict[tuple[int, TopicPartition], Log] = {}
        """The logs that ``chains`` describes, while their process runs."""
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._cuts: dict[Log, int] = {}
        self._failing: dict[Log, Seen] = {}
        """Logs as they were when their log dir failed during the current event."""
        self._answers: list[tuple[TopicPartition, int]] = []
        self._elected: dict[TopicPartition, PartitionImage] = {}
        self._reported: Violation | None = None

    # What happens

    def report(self, invariant: str, text: str) -> None:
        """Reports a violation after the current event, because production code may catch what is raised now."""
        self._reported = self._reported or Violation(invariant, text)

    @staticmethod
    def fail(invariant: str, text: str) -> None:
        """Raises Violation for this invariant."""
        raise Violation(invariant, text)

    def was_cut(self, log: Log, offset: int) -> None:
        """Notes a truncation."""
        self._cuts[log] = min(self._cuts.get(log, offset), offset)

    def dir_fails(self, log_dir: LogDir) -> None:
        """Notes a log dir that is about to go offline. The current event may have moved high watermarks before."""
        for machine in self.cluster.machines.values():
            replicas = None if machine.process is None else machine.process.replicas()
            for partition in replicas.partitions if replicas is not None else ():
                if partition.log.log_dir is log_dir and not log_dir.offline:
                    self._failing[partition.log] = _seen(partition)

    def store_changed(self, paths: Iterable[str]) -> None:
        """Reacts to changed nodes of the store."""
        for path in paths:
            self.incarnations.store_changed(path)
            self.retention.store_changed(path)
        for path in paths:
            if path.startswith(_TOPICS) and not self.keeping.is_adrift:
                if path.endswith("/state"):
                    self._read_state(path)
                elif path.count("/") == _TOPICS.count("/"):
                    self._read_topic(path[len(_TOPICS) :])

    def _read_topic(self, name: str) -> None:
        """Notes that a topic's partitions are gone, if the topic's own node is missing or unreadable."""
        if self._decoded(name) is None:
            for tp in [tp for tp in self.authority if real(tp).topic == name]:
                self._gone(tp)

    def _decoded(self, name: str) -> tuple[bytes, dict[int, Any]] | None:
        node = self.cluster.store.tree.nodes.get(znodes.topic_path(name))
        try:
            return None if node is None else znodes.decode_topic(node.data)
        except NOT_OURS:
            return None

    def _read_state(self, path: str) -> None:
        _, _, _, name, _, index, _ = path.split("/")
        node, topic = self.cluster.store.tree.nodes.get(path), self._decoded(name)
        state = None
        if topic is not None and node is not None:
            tp = self.incarnations.key(topic[0], name, int(index))
            with contextlib.suppress(*NOT_OURS):
                state = znodes.decode_state(tp.partition, node.data, node.stat.version, topic[1][tp.partition])
        if state is None:
            for tp in [tp for tp in self.authority if real(tp) == TopicPartition(name, int(index))]:
                self._gone(tp)
        elif tp not in self.keeping.estranged:
            self._decided(tp, state)
        if node is not None:
            self.keeping.state_written(TopicPartition(name, int(index)), topic and topic[0], node.data)

    def _gone(self, tp: TopicPartition) -> None:
        """Notes partitions whose nodes are gone or unreadable."""
        state = self.authority.pop(tp)
        self._elected.pop(tp, None)
        if not self.incarnations.is_deleted(tp):
            holders = tuple(id for id in {*state.isr, *state.elr} if (id, tp) not in self.tainted)
            self.keeping.estrange(tp, holders)
            self.cluster.note(f"{tp}: is estranged; brokers {list(holders)} have all of it")

    def drift(self) -> None:
        """Notes that the store was replaced. From now on, the oracle only demands that the disks keep the acknowledged
        records.
        """
        self.keeping.is_adrift = True
        self.authority.clear()
        self._elected.clear()

    def would_be_safe(self, tree: Tree) -> bool:
        """Returns whether all replicas that are in sync in that tree have everything. A backup does not show which
        replicas have left the ISR since.
        """
        for path, node in tree.nodes.items():
            if path.startswith(_TOPICS) and path.endswith("/state"):
                _, _, _, name, _, index, _ = path.split("/")
                topic_id, assigned = znodes.decode_topic(tree.nodes[znodes.topic_path(name)].data)
                tp = self.incarnations.key(topic_id, name, int(index))
                state = znodes.decode_state(tp.partition, node.data, node.stat.version, assigned[tp.partition])
                committed = self.committed.get(tp, Chain())
                if not all(self._newest(id, tp).agrees(committed, committed.end) for id in (*state.isr, *state.elr)):
                    return False
        return True

    def _decided(self, tp: TopicPartition, state: PartitionImage) -> None:
        self.authority[tp] = self._elected[tp] = state
        elr = f", eligible {list(state.elr)}" if state.elr else ""
        text = f"{tp}: leader {state.leader} in epoch {state.leader_epoch}, in sync {list(state.isr)}{elr}"
        self.cluster.note(text)
        for node_id, tainted in tuple(self.tainted):
            if tainted == tp and node_id not in state.isr and node_id not in state.elr:
                self.tainted.discard((node_id, tp))
        if len(state.replicas) < len(self.cluster.machines):
            self.keeping.away.update((id, tp) for id in self.cluster.machines if id not in state.replicas)

    def answered(self, process: Process, tp: TopicPartition, base_offset: int) -> None:
        """Notes that a broker acknowledges the batch at that offset."""
        partition = process.broker.replicas.partitions.topics.get(tp.topic, {}).get(tp.partition)
        if partition is not None and not self.keeping.is_adrift:
            self._answers.append((self.incarnations.key(partition.topic_id, *tp), base_offset))

    def partitions(self) -> list[TopicPartition]:
        """Returns the existing partitions, under the brokers' names."""
        return [real(tp) for tp in self.authority]

    def lost_unsynced(self, node_id: int) -> None:
        """Notes that a machine has lost all data that it had not synced."""
        for tp, state in self.authority.items():
            if node_id in state.replicas:
                self.tainted.add((node_id, tp))
        for node, tp in tuple(self._seen):
            if node == node_id:
                del self._seen[node, tp]
                self._logs.pop((node, tp), None)
        self.keeping.lost(node_id)

    def unprotected(self, node_id: int) -> list[TopicPartition]:
        """Returns the partitions that may lose records together with that machine's unsynced data.

        ``min.insync.replicas`` of 2 protects against one loss at a time. As long as nobody has noticed the loss of a
        machine, the others may leave the ISR one by one. A value of 1 protects against none.
        """
        found = [tp for tp, state in self.authority.items() if node_id in state.replicas]
        return [tp for tp in found if not self._protects(self.authority[tp], node_id, tp)]

    def _protects(self, state: PartitionImage, node_id: int, tp: TopicPartition) -> bool:
        others = {id for id in (*state.isr, *state.elr) if id != node_id}
        has_losses = any((id, tp) in self.tainted for id in others)
        return bool(others) and not has_losses and self.min_isr.get(real(tp).topic, 1) > 1

    def trim_to_acked(self, tp: TopicPartition) -> None:
        """Forgets records that are committed but not acknowledged, because every replica may have lost its unsynced
        data.
        """
        if tp in self.committed:
            starts = [seen.start for (_, each), seen in self._seen.items() if each == tp]
            self.committed[tp].cut(max(self.acked.get(tp, 0), *starts, 0))
            self.trimmed.add(tp)
            for node_id, machine in self.cluster.machines.items():  # a new leader may have committed more
                self._seen.pop((node_id, tp), None)
                if machine.process is not None:
                    self.cluster.scheduler.touched[machine.process.loop] = None

    def process_ended(self, process: Process) -> None:
        """Notes the end of a process, perhaps in the middle of an event."""
        if process.broker is not None:
            self.look_before_end(process)
        for node, tp in tuple(self._seen):
            if node == process.node_id:
                del self._seen[node, tp]
                self._logs.pop((node, tp), None)

    # After each event

    def check(self) -> None:
        """Checks everything that may have changed."""
        if self._reported is not None:
            raise self._reported
        touched = self.cluster.scheduler.touched
        if touched:
            for loop in touched:
                machine = loop.machine
                if machine is not None and machine.process is not None and machine.process.loop is loop:
                    self.look(machine.process)
            touched.clear()
        if self._elected:
            elected, self._elected = self._elected, {}
            for tp, state in elected.items():
                self._check_state(tp, state)
        if self._answers:
            self._check_answers()

    def look_before_end(self, process: Process) -> None:
        """Checks one broker's replicas before it deletes some. The current event may have moved their high watermarks.
        """
        try:
            self.look(process)
        except Violation as violation:
            self._reported = self._reported or violation

    def look(self, process: Process) -> None:
        """Checks one broker's replicas."""
        replicas, node_id = process.replicas(), process.node_id
        if replicas is None or node_id is None or self.keeping.is_adrift:
            return
        key_of = self.incarnations.key
        for partitions in replicas.partitions.topics.values():
            for partition in partitions.values():
                log = partition.log
                if log.log_dir.offline:
                    self._look_at_failed(process, partition, node_id)
                    continue
                if log.recovery_point > log.log_end_offset:
                    self.fail("synced", f"{log} of broker {node_id} has synced {log.recovery_point}, beyond its end")
                key = (node_id, key_of(partition.topic_id, *partition.topic_partition))
                seen = self._seen.get(key)
                if (
                    seen is None
                    or seen.end != log.log_end_offset
                    or seen.start != log.log_start_offset
                    or seen.high_watermark != log.high_watermark
                    or seen.epoch != partition.leader_epoch
                    or seen.leads != partition.is_leader
                    or log in self._cuts
                    or seen.log is not log
                ):
                    self._look_at(process, partition, key, seen)

    def _look_at_failed(self, process: Process, partition: Any, node_id: int) -> None:
        """Checks a log once after its log dir has failed, up to its high watermark at that time."""
        last = self._failing.pop(partition.log, None)
        if last is not None:
            key = (node_id, self.incarnations.key(partition.topic_id, *partition.topic_partition))
            before = self._seen.get(key)
            led = last.leads or (before is not None and before.log is last.log and before.leads)
            chain = self._chain(key, partition.log)
            self._check_watermark(process, partition, chain, last.high_watermark, leads=last.leads, led=led)

    def _look_at(self, process: Process, partition: Any, key: Any, seen: Seen | None) -> None:
        node_id, tp = key
        log: Log = partition.log
        chain = self._chain(key, log)
        if log.log_start_offset:
            led = seen is not None and seen.log is log and seen.leads and seen.start < log.log_start_offset
            self.retention.check(tp, partition.topic_partition.topic, log, led=led)
        leads, epoch, high_watermark = partition.is_leader, partition.leader_epoch, log.high_watermark
        self._seen[key] = _seen(partition)
        if leads:
            other = self._leaders.setdefault((tp, epoch), node_id)
            if other != node_id:
                raise Violation("one leader", f"{tp}: {other} and {node_id} lead in epoch {epoch}")
            if seen is not None and seen.leads and seen.epoch == epoch and high_watermark < seen.high_watermark:
                raise Violation("watermark", f"{tp}: fell from {seen.high_watermark} to {high_watermark} in {epoch}")
        led = leads or (seen is not None and seen.leads)  # the log may have learned of its end in the same turn
        self._check_watermark(process, partition, chain, high_watermark, leads=leads, led=led)

    def _check_watermark(
        self, process: Process, partition: Any, chain: Chain, high_watermark: int, *, leads: bool, led: bool
    ) -> None:
        node_id, tp = process.node_id, self.incarnations.key(partition.topic_id, *partition.topic_partition)
        committed = self.committed.setdefault(tp, Chain())
        known = min(high_watermark, committed.end)
        if not leads and ((node_id, tp) in self.tainted or tp in self.trimmed):
            return  # it may lack something, or have records that nobody acknowledged
        if known and not chain.agrees(committed, known):
            raise Violation("agreement", f"{tp} below {known}: broker {node_id} has {chain}, committed is {committed}")
        if high_watermark > committed.end:
            self._commit(process, partition, chain, high_watermark, led=led)

    def _chain(self, key: tuple[int, TopicPartition], log: Log) -> Chain:
        """Returns the batches of the log as it is now."""
        if log.log_dir.offline:  # its records are on its disk, but it refuses to read them
            return log_on(self.cluster.machines[key[0]].disk, log.folder, self.committed.get(key[1]))
        chain = self.chains.get(key)
        cut = self._cuts.pop(log, None)
        if chain is None or self._logs.get(key) is not log:
            if chain is not None and cut is None:
                self.keeping.reopened(key, chain, log)
            chain = self.chains[key] = Chain()
            self._logs[key] = log
        elif cut is not None:
            chain.cut(cut)
        committed, start = self.committed.get(key[1], chain), log.log_start_offset
        if start and committed is not chain:
            chain.forget_below(committed, start)
        while chain.end < log.log_end_offset:
            before = chain.end
            chain.add_all(log.read_bytes(before, 1 << 30))
            if chain.end == before:
                raise Violation("agreement", f"{key[1]} of broker {key[0]} cannot be read at {before}")
        return chain

    def _commit(self, process: Process, partition: Any, chain: Chain, high_watermark: int, *, led: bool) -> None:
        """Commits records that a high watermark has passed for the first time."""
        tp = self.incarnations.key(partition.topic_id, *partition.topic_partition)
        if chain.digest_at(high_watermark) is None:
            raise Violation("agreement", f"{tp}: watermark {high_watermark} lies in a batch or beyond {chain}")
        if not led:
            self._look_at_others(process)
            if chain.agrees(self.committed[tp], high_watermark):
                return
            text = f"{tp}: follower {process.node_id} has {high_watermark}, committed is {self.committed[tp].end}"
            raise Violation("agreement", text)
        committed = self.committed[tp]
        committed.take(chain, high_watermark)
        self.cluster.note(f"{tp}: committed up to {high_watermark} by {process.node_id}")
        self.commits += 1
        holders = [id for id in self.cluster.machines if self._newest(id, tp).agrees(committed, high_watermark)]
        required = min(self.min_isr.get(real(tp).topic, 1), len(partition.replicas))
        if len(holders) < required:
            raise Violation("min.insync", f"{tp} below {high_watermark} is on {holders} only")
        state = self.authority.get(tp)
        if state is not None:
            self._check_members(tp, state)

    def _look_at_others(self, process: Process) -> None:
        """Checks the other brokers too. When faults end, one event may run a leader and then its followers."""
        for machine in self.cluster.machines.values():
            if machine.process is not None and machine.process is not process:
                self.look(machine.process)

    def _newest(self, node_id: int, tp: TopicPartition) -> Chain:
        """Returns a replica as it is now, even in the middle of an event."""
        process = self.cluster.machines[node_id].process
        replicas = None if process is None else process.replicas()
        name, index = real(tp)
        partition = None if replicas is None else replicas.partitions.topics.get(name, {}).get(index)
        if partition is not None and partition.topic_id == self.incarnations.id_of(tp):
            return self._chain((node_id, tp), partition.log)
        return self.chains.get((node_id, tp)) or Chain()

    def _check_state(self, tp: TopicPartition, state: PartitionImage) -> None:
        """Checks a state that the controller has written."""
        committed = self.committed.get(tp)
        if committed is None:
            return
        if state.leader != NO_LEADER:
            if state.leader not in state.isr:
                raise Violation("isr", f"{tp}: leader {state.leader} is not in {state.isr}")
            chain = self._newest(state.leader, tp)
            is_tainted = (state.leader, tp) in self.tainted
            if not chain.agrees(committed, committed.end):
                loss = " has lost what was not synced," if is_tainted else ""
                text = f"{tp}: {state.leader}, which leads in {state.leader_epoch},{loss} has {chain}, not {committed}"
                raise Violation("durability", text)
        self._check_members(tp, state)

    def _check_members(self, tp: TopicPartition, state: PartitionImage) -> None:
        committed = self.committed[tp]
        for member in (*state.isr, *state.elr):
            if (member, tp) in self.tainted:
                continue
            chain = self._newest(member, tp)
            if not chain.agrees(committed, committed.end):
                text = f"{tp}: {member} of {state.isr}+{state.elr} has {chain}, committed is {committed}"
                raise Violation("isr", text)

    def _check_answers(self) -> None:
        answers, self._answers = self._answers, []
        for tp, base_offset in answers:
            committed = self.committed.get(tp)
            if committed is None or committed.end <= base_offset:
                raise Violation("ack", f"{tp}: what begins at {base_offset} was acknowledged, committed is {committed}")
            end = committed.ends[committed.index(base_offset)]
            self.acked[tp] = max(self.acked.get(tp, 0), end)

    # At the end

    def check_end(self) -> None:
        """Checks at the end that every replica has all committed records, and that all replicas are equal."""
        self.check()
        for tp, state in self.authority.items():
            committed = self.committed.get(tp, Chain())
            for replica in state.replicas:
                chain = self.chains.get((replica, tp), Chain())
                if chain.end != committed.end or not chain.agrees(committed, committed.end):
                    raise Violation("durability", f"{tp} at the end: {replica} has {chain}, committed is {committed}")
