"""Mutants of the broker: each breaks one promise, and some checker must say so.

A mutant is a function that is given a module of the broker when that has been imported, and changes it. ``trial`` and
``kinds`` say where it is caught, and as what (``trials``). Nothing of the broker is imported here: this file is loaded
into the broker's own process, by ``sitecustomize``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Patch = Callable[[Any], None]


@dataclass(frozen=True)
class Mutant:
    """``module``: what it changes. ``kinds``: anomalies of which at least one must be found in ``trial``."""

    name: str
    module: str
    trial: str
    kinds: tuple[str, ...]
    patch: Patch


MUTANTS: dict[str, Mutant] = {}


def mutant(module: str, trial: str, *kinds: str) -> Callable[[Patch], Patch]:
    """Registers a function under its name."""

    def register(patch: Patch) -> Patch:
        MUTANTS[patch.__name__] = Mutant(patch.__name__, module, trial, kinds, patch)
        return patch

    return register


def patches(name: str) -> Iterator[tuple[str, Patch]]:
    """Module and change of a mutant; KeyError where there is none of that name."""
    found = MUTANTS[name]
    yield found.module, found.patch


# -- the promise of acks=all -------------------------------------------------------------------------------


@mutant("pybroker.replication.partition", "frozen followers", "lost")
def acks_before_replication(module: Any) -> None:
    module.Partition.is_replicated = lambda partition, last_offset: True


@mutant("pybroker.replication.promises", "frozen followers", "lost")
def takes_acks_all_for_acks_1(module: Any) -> None:
    module.Promises.promise = lambda promises, partition, last_offset, timeout_ms: None


@mutant("pybroker.replication.isr", "frozen followers", "lost")
def counts_only_the_leader(module: Any) -> None:
    module.IsrTracker.least_log_end = lambda tracker, leader_end: leader_end


@mutant("pybroker.replication.isr", "frozen followers", "lost")
def believes_to_be_alone(module: Any) -> None:
    module.IsrTracker.is_alone = property(lambda tracker: True)


@mutant("pybroker.replication.isr", "one frozen follower", "lost")
def waits_for_the_quickest_follower(module: Any) -> None:
    def quickest(tracker: Any, leader_end: int) -> int:
        ends = [follower.log_end_offset for follower in tracker.followers.values()]
        return min(leader_end, max(ends, default=leader_end))

    module.IsrTracker.least_log_end = quickest


@mutant("pybroker.replication.purgatory", "frozen followers", "lost")
def acks_when_the_time_is_over(module: Any) -> None:
    module.WaitingAck.expired = lambda waiting: waiting.answer(None)


@mutant("pybroker.replication.partition", "frozen followers", "unseen")
def shows_what_is_not_replicated(module: Any) -> None:
    read = module.Partition.read

    def read_all(partition: Any, wanted: Any, max_bytes: int, isolation: Any, **options: Any) -> Any:
        return read(partition, wanted, max_bytes, module.Isolation.LOG_END, **options)

    module.Partition.read = read_all


@mutant("pybroker.replication.partition", "too few", "lost")
def ignores_min_insync_replicas(module: Any) -> None:
    def reconfigured(partition: Any) -> None:
        partition._lacks_replicas = False

    module.Partition.reconfigured = reconfigured


# -- logs ----------------------------------------------------------------------------------------------------


@mutant("pybroker.replication.follower", "frozen followers", "replicas differ", "stuck", "lost")
def never_truncates(module: Any) -> None:
    module.cut_to_agree = lambda log, leader, wall_ms: None


@mutant("pybroker.replication.partition", "frozen followers", "replicas differ", "stuck", "lost")
def sees_no_divergence(module: Any) -> None:
    module.Partition._divergence = lambda partition, wanted: None


@mutant("pybroker.log.recovery", "no power", "lost")
def truncates_to_the_high_watermark(module: Any) -> None:
    """As before KIP-101, when it starts."""
    load = module.load

    def load_and_cut(*arguments: Any, **options: Any) -> Any:
        log = load(*arguments, **options)
        log.truncate_to(log.high_watermark, 0)
        return log

    module.load = load_and_cut


@mutant("pybroker.log.log", "order", "replicas differ")
def writes_something_else_as_a_follower(module: Any) -> None:
    append = module.Log._append_run

    def append_changed(log: Any, run: Any, data: Any, now_ms: int) -> None:
        changed = bytearray(data)
        changed[-1] ^= 1
        append(log, run, memoryview(changed), now_ms)

    module.Log._append_run = append_changed


@mutant("pybroker.log.log", "retry", "duplicate")
def knows_no_duplicates(module: Any) -> None:
    init = module.Log.__init__

    def without_check(log: Any, *arguments: Any, **options: Any) -> None:
        init(log, *arguments, **options)
        type(log.producers).check = lambda states, batch, transaction_version=0, *, with_sequence: None

    module.Log.__init__ = without_check


@mutant("pybroker.log.log", "retry", "duplicate", "stuck")
def forgets_producers_as_a_follower(module: Any) -> None:
    append = module.Log.append_as_follower

    def append_and_forget(log: Any, records: Any, leader_epoch: int, now_ms: int) -> Any:
        info = append(log, records, leader_epoch, now_ms)
        log.producers.clear(log.log_end_offset)
        return info

    module.Log.append_as_follower = append_and_forget


@mutant("pybroker.replication.partition", "order", "duplicate", "inconsistent offset")
def writes_twice(module: Any) -> None:
    append = module.Partition.append

    def append_again(partition: Any, records: Any, *arguments: Any, **options: Any) -> Any:
        again = bytes(records)
        info = append(partition, records, *arguments, **options)
        if not partition.topic_partition.topic.startswith("__") and info.first_offset % 7 == 3:
            append(partition, again, *arguments, **options)
        return info

    module.Partition.append = append_again


@mutant("pybroker.replication.partition", "order", "lost")
def drops_a_batch(module: Any) -> None:
    append = module.Partition.append
    turns = iter(range(1 << 60))

    def append_most(partition: Any, records: Any, *arguments: Any, **options: Any) -> Any:
        info = append(partition, records, *arguments, **options)
        if not partition.topic_partition.topic.startswith("__") and next(turns) == 5:
            partition.log.truncate_to(info.first_offset, 0)
        return info

    module.Partition.append = append_most


@mutant("pybroker.replication.partition", "order", "inconsistent offset")
def tells_a_wrong_offset(module: Any) -> None:
    append = module.Partition.append

    def append_and_lie(partition: Any, *arguments: Any, **options: Any) -> Any:
        info = append(partition, *arguments, **options)
        info.first_offset += 1
        return info

    module.Partition.append = append_and_lie


@mutant("pybroker.replication.partition", "order", "reordered")
def lets_a_batch_overtake(module: Any) -> None:
    append = module.Partition.append
    turns = iter(range(1 << 60))
    held: list[bytes] = []

    def append_later(partition: Any, records: Any, *arguments: Any, **options: Any) -> Any:
        if partition.topic_partition.topic.startswith("__"):
            return append(partition, records, *arguments, **options)
        if next(turns) == 5:  # the batches of the trial have two records each
            held.append(bytes(records))
            end = partition.log.log_end_offset
            return module.AppendInfo(end + 2, end + 3, -1, 0)
        info = append(partition, records, *arguments, **options)
        if held:
            append(partition, held.pop(), *arguments, **options)
        return info

    module.Partition.append = append_later


# -- elections -----------------------------------------------------------------------------------------------


@mutant("pybroker.cluster.decisions.elections", "laggard", "lost")
def elects_anybody(module: Any) -> None:
    elect = module.elect

    def unclean(partition: Any, alive: Any, **options: Any) -> Any:
        return elect(partition, alive, **{**options, "unclean": True})

    module.elect = unclean


@mutant("pybroker.cluster.decisions.elections", "laggard", "lost")
def keeps_everybody_eligible(module: Any) -> None:
    def eligible(partition: Any, isr: Any, lost: Any, min_isr: int) -> Any:
        return tuple(broker for broker in partition.replicas if broker not in isr)

    module._eligible = eligible


# -- coordinators --------------------------------------------------------------------------------------------


@mutant("pybroker.coordinator.runtime", "coordinator", "went back")
def answers_a_commit_at_once(module: Any) -> None:
    write = module.Runtime._write

    def write_only(runtime: Any, hosted: Any, result: Any) -> None:
        write(runtime, hosted, result)

    module.Runtime._write = write_only


@mutant("pybroker.coordinator.loading", "coordinator", "went back")
def loads_nothing(module: Any) -> None:
    async def load(log: Any, shard: Any) -> int:
        return int(log.log_end_offset)

    module.load = load


@mutant("pybroker.coordinator.group.offset_store", "coordinator", "went back")
def keeps_the_oldest_offset(module: Any) -> None:
    commit = module.OffsetStore.commit

    def commit_first(store: Any, key: Any, committed: Any) -> None:
        group_id, topic, partition = key
        if partition not in store.of(group_id).topics().get(topic, {}):
            commit(store, key, committed)

    module.OffsetStore.commit = commit_first


# -- transactions --------------------------------------------------------------------------------------------


@mutant("pybroker.log.log", "transactions", "aborted read")
def shows_open_transactions(module: Any) -> None:
    module.Log.last_stable_offset = property(lambda log: log.high_watermark)


@mutant("pybroker.log.log", "transactions", "aborted read")
def names_no_aborted_transactions(module: Any) -> None:
    module.Log.aborted_transactions = lambda log, start, end: []


@mutant("pybroker.coordinator.txn.marker_writer", "transactions", "aborted read")
def commits_what_was_aborted(module: Any) -> None:
    write = module.MarkerWriter.write

    def commit(writer: Any, marker: Any, partitions: Any) -> Any:
        return write(writer, marker._replace(committed=True), partitions)

    module.MarkerWriter.write = commit


@mutant("pybroker.coordinator.txn.marker_writer", "transactions", "lost", "torn")
def aborts_in_the_first_partition(module: Any) -> None:
    append = module.MarkerWriter._append

    def abort_there(writer: Any, marker: Any, partition: Any) -> Any:
        return append(writer, marker._replace(committed=False) if partition.partition == 0 else marker, partition)

    module.MarkerWriter._append = abort_there


@mutant("pybroker.coordinator.txn.marker_writer", "transactions", "stuck")
def forgets_a_marker(module: Any) -> None:
    append = module.MarkerWriter._append

    def append_most(writer: Any, marker: Any, partition: Any) -> Any:
        return None if partition.partition == 1 else append(writer, marker, partition)

    module.MarkerWriter._append = append_most


@mutant("pybroker.coordinator.txn.shard", "prepared", "stuck")
def forgets_what_was_prepared(module: Any) -> None:
    def loaded(shard: Any, result: Any) -> None:
        result.reads = True

    module.TransactionShard.loaded = loaded


@mutant("pybroker.coordinator.group.offset_store", "offsets", "went back")
def loses_offsets_of_transactions(module: Any) -> None:
    end = module.OffsetStore.end
    module.OffsetStore.end = lambda store, producer_id, *, committed: end(store, producer_id, committed=False)


@mutant("pybroker.coordinator.txn.initialising", "zombie", "aborted read")
def fences_nobody(module: Any) -> None:
    module._next = lambda transaction, expected, ids: (transaction.producer_id, transaction.epoch, -1)
