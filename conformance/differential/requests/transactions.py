"""Transactional producers: ids, partitions, records, offsets, ends, markers from outside, and what readers see."""

from __future__ import annotations

from typing import Any

from conformance.data import batches
from conformance.differential.broker_side import UNKNOWN_PRODUCER, Actor, World
from conformance.differential.requests import classic, offsets
from conformance.differential.requests.verb import Fields, Verb
from conformance.differential.step import Step


def transactional_id(world: World, step: Step) -> str | None:
    which = step.get("id", 0)
    if which is None:
        return None
    return "" if which == "" else world.transactional_id(which)


def producer(actor: Actor, step: Step) -> tuple[int, int]:
    """Returns the producer id and the epoch that a step claims."""
    shift = {"own": 0, "next": 1, "before": -1}[step.get("epoch", "own")]
    known = {"own": actor.producer_id, "unknown": UNKNOWN_PRODUCER, "none": -1}[step.get("producer", "own")]
    return known, actor.producer_epoch + shift


def claim(world: World, actor: Actor, step: Step) -> Fields:
    producer_id, producer_epoch = producer(actor, step)
    return {
        "transactional_id": transactional_id(world, step),
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
    }


def init(world: World, actor: Actor, step: Step) -> Fields:
    current = (-1, -1) if step.get("fresh", True) else producer(actor, step)
    return {
        "transactional_id": transactional_id(world, step),
        "transaction_timeout_ms": step.get("timeout_ms", classic.LONG_MS),
        "producer_id": current[0],
        "producer_epoch": current[1],
    }


def renewed(world: World, actor: Actor, step: Step, reply: Any) -> None:
    """Learns the producer id in the reply."""
    if reply.error_code == 0 and reply.producer_id >= 0:
        if (actor.producer_id, actor.producer_epoch) != (reply.producer_id, reply.producer_epoch):
            actor.sequences.clear()
        actor.producer_id, actor.producer_epoch = reply.producer_id, reply.producer_epoch
        world.name_producer(reply.producer_id)


def partitions(world: World, step: Step) -> list[dict[str, Any]]:
    found = [{"name": world.topic(which), "partitions": [0, 1]} for which in step.get("topics", ("own",))]
    return [{**row, "partitions": [0, 77]} for row in found] if step.get("beyond") else found


def add_partitions(world: World, actor: Actor, step: Step) -> Fields:
    claimed, rows = claim(world, actor, step), partitions(world, step)
    single = {f"v3_and_below_{name}": value for name, value in claimed.items()}
    one = {**claimed, "verify_only": bool(step.get("verify", False)), "topics": rows}
    return {**single, "v3_and_below_topics": rows, "transactions": [one]}


def add_offsets(world: World, actor: Actor, step: Step) -> Fields:
    return {**claim(world, actor, step), "group_id": world.group}


def commit(world: World, actor: Actor, step: Step) -> Fields:
    member, generation = "", -1
    if step.get("caller", "nobody") != "nobody":
        changed = Step(step.actor, step.verb, (*step.options, ("role", step.get("caller"))))
        member, generation = offsets.identity(world, actor, changed)
    return {
        **claim(world, actor, step),
        "group_id": world.group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": classic.instance_id(actor, step.get("instance")),
        "topics": offsets.rows(world, step),
    }


def produce(world: World, actor: Actor, step: Step) -> Fields:
    producer_id, producer_epoch = producer(actor, step)
    if producer_id < 0:
        producer_id, producer_epoch = UNKNOWN_PRODUCER, 0
    topic, partition, count = step.get("topic", "own"), step.get("partition", 0), step.get("count", 1)
    following = actor.sequences.get((topic, partition), 0)
    sequence = {"next": following, "again": max(0, following - count), "gap": following + 3, "zero": 0}
    transactional = step.get("transactional", True) or producer_id == UNKNOWN_PRODUCER
    records = batches.batch(
        [b"record %d" % number for number in range(count)],
        attributes=batches.TRANSACTIONAL if transactional else 0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence[step.get("sequence", "next")],
    )
    data = {"index": partition, "records": records}
    row = {"name": world.topic(topic), "topic_id": world.topic_id(topic), "partition_data": [data]}
    return {
        "transactional_id": transactional_id(world, step) if transactional else None,
        "acks": -1,
        "timeout_ms": 30_000,
        "topic_data": [row],
    }


def produced(world: World, actor: Actor, step: Step, reply: Any) -> None:
    """Notes how many records were accepted, from which the next sequence follows."""
    if reply.responses[0].partition_responses[0].error_code == 0 and step.get("sequence", "next") == "next":
        place = (step.get("topic", "own"), step.get("partition", 0))
        actor.sequences[place] = actor.sequences.get(place, 0) + step.get("count", 1)


def end(world: World, actor: Actor, step: Step) -> Fields:
    return {**claim(world, actor, step), "committed": bool(step.get("commit", True))}


def ended(world: World, actor: Actor, step: Step, reply: Any) -> None:
    if step.version >= 5:
        renewed(world, actor, step, reply)


def mark(world: World, actor: Actor, step: Step) -> Fields:
    """Returns a marker as only a coordinator sends it."""
    producer_id, producer_epoch = producer(actor, step)
    marker = {
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "transaction_result": bool(step.get("commit", True)),
        "topics": [{"name": world.topic(step.get("topic", "own")), "partition_indexes": [0]}],
        "coordinator_epoch": step.get("coordinator_epoch", 0),
        "transaction_version": step.get("level", 0),
    }
    return {"markers": [marker]}


def describe(world: World, actor: Actor, step: Step) -> Fields:
    return {"transactional_ids": [world.transactional_id(which) for which in step.get("ids", (0,))]}


def list_all(world: World, actor: Actor, step: Step) -> Fields:
    """Returns the filter of a list: all transactions, or with ``whose`` only those of the actor's own producer id."""
    return {
        "state_filters": list(step.get("states", ())),
        "producer_id_filters": [actor.producer_id] if step.get("whose") == "own" else [],
        "duration_filter": -1,
        "transactional_id_pattern": None,
    }


def producers(world: World, actor: Actor, step: Step) -> Fields:
    return {"topics": [{"name": world.topic(step.get("topic", "own")), "partition_indexes": [0, 1]}]}


def read(world: World, actor: Actor, step: Step) -> Fields:
    row = {"partition": step.get("partition", 0), "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    row |= {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
    topic = step.get("topic", "own")
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": step.get("isolation", 1),
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": world.topic(topic), "topic_id": world.topic_id(topic), "partitions": [row]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def list_offsets(world: World, actor: Actor, step: Step) -> Fields:
    rows = [{"partition_index": place, "timestamp": step.get("at", -1), "current_leader_epoch": -1} for place in (0, 1)]
    topic = world.topic(step.get("topic", "own"))
    return {
        "replica_id": -1,
        "isolation_level": step.get("isolation", 1),
        "topics": [{"name": topic, "partitions": rows}],
        "timeout_ms": 30_000,
    }


VERBS = {
    "init": Verb("InitProducerId", (0, 5), init, renewed),
    "add_partitions": Verb("AddPartitionsToTxn", (0, 5), add_partitions),
    "add_offsets": Verb("AddOffsetsToTxn", (0, 4), add_offsets),
    "commit_in_txn": Verb("TxnOffsetCommit", (0, 5), commit),
    "produce": Verb("Produce", (3, 13), produce, produced),
    "end": Verb("EndTxn", (0, 5), end, ended),
    "mark": Verb("WriteTxnMarkers", (1, 2), mark),
    "describe_txn": Verb("DescribeTransactions", (0, 0), describe),
    "list_txns": Verb("ListTransactions", (0, 2), list_all),
    "describe_producers": Verb("DescribeProducers", (0, 0), producers),
    "read": Verb("Fetch", (4, 18), read),
    "list_offsets": Verb("ListOffsets", (1, 11), list_offsets),
}
