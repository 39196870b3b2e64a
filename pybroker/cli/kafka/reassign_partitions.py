"""``pybroker kafka-reassign-partitions``: takes the options of kafka-reassign-partitions.sh."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.output import write
from pybroker.cli.common.replica_plan import plan
from pybroker.cli.common.verbs import Failure, Verb
from pybroker.cli.kafka.common import throttles
from pybroker.cli.kafka.common.json_files import partitions_of_file, read_json
from pybroker.cli.kafka.common.options import on_kafka, only
from pybroker.cli.partition import described, numbers
from pyclient import TopicPartition

if TYPE_CHECKING:
    from pyclient import Admin

ACTIONS = ("generate", "execute", "verify", "list", "cancel")
Replicas = Mapping[TopicPartition, Sequence[int]]
TOPICS = '{"topics": [{"topic": "t"}], "version": 1}'
PARTITIONS = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'


@click.command("kafka-reassign-partitions", cls=Verb)
@click.option("--generate", "actions", flag_value="generate", multiple=True, help="Propose new replicas.")
@click.option("--execute", "actions", flag_value="execute", multiple=True, help="Begin what a file says.")
@click.option("--verify", "actions", flag_value="verify", multiple=True, help="Has it been done?")
@click.option("--list", "actions", flag_value="list", multiple=True, help="What goes on.")
@click.option("--cancel", "actions", flag_value="cancel", multiple=True, help="Stop what a file says.")
@click.option("--topics-to-move-json-file", metavar="FILE", help=f"With --generate: {TOPICS}")
@click.option("--broker-list", metavar="1,2,3", help="With --generate: the target brokers.")
@click.option("--reassignment-json-file", metavar="FILE", help=f"For the others: {PARTITIONS}")
@click.option("--additional", is_flag=True, hidden=True)
@click.option("--preserve-throttles", is_flag=True, help="With --verify and --cancel: the throttle stays.")
@click.option("--disable-rack-aware", is_flag=True, hidden=True)
@click.option("--timeout", type=int, hidden=True)
@click.option("--throttle", type=click.IntRange(0), help="With --execute: bytes per second, until --verify.")
@on_kafka()
def reassign_partitions(
    cluster: Cluster,
    actions: tuple[str, ...],
    topics_to_move_json_file: str | None,
    broker_list: str | None,
    reassignment_json_file: str | None,
    preserve_throttles: bool,
    throttle: int | None,
    **ignored: Any,
) -> int:
    """kafka-reassign-partitions.sh: --generate, --execute, --verify, --list or --cancel.

    A proposal of --generate moves as few replicas as it can; Kafka's own reassigns all of them.
    """
    action = only(actions, ACTIONS)
    if throttle is not None and action != "execute":
        raise click.UsageError("--throttle is for --execute")
    if action == "generate" and (topics_to_move_json_file is None or broker_list is None):
        raise click.UsageError("--generate: --topics-to-move-json-file and --broker-list are missing")
    if action in ("execute", "verify", "cancel") and reassignment_json_file is None:
        raise click.UsageError(f"--{action}: --reassignment-json-file is missing")
    wanted = {} if reassignment_json_file is None else targets(reassignment_json_file)
    with cluster.admin() as admin:
        if action == "list":
            write(listed(admin))
            return 0
        if action == "generate":
            return generate(admin, topics_of(str(topics_to_move_json_file)), str(broker_list))
        if action == "execute":
            return execute(admin, wanted, throttle)
        return {"verify": verify, "cancel": cancel}[action](admin, wanted, lifts=not preserve_throttles)


def topics_of(path: str) -> list[str]:
    """Returns the topics that a file names. Raises Failure."""
    try:
        return [str(row["topic"]) for row in read_json(path)["topics"]]
    except (KeyError, TypeError) as error:
        raise Failure(f"{path}: {error!r}: expected {TOPICS}") from error


def targets(path: str) -> dict[TopicPartition, list[int]]:
    """Returns the replicas that a file wants for each partition. Raises Failure."""
    try:
        rows = partitions_of_file(path)
        ids = [[int(each) for each in row["replicas"]] for row in rows]
        keys = [TopicPartition(str(row["topic"]), int(row["partition"])) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise Failure(f"{path}: {error!r}: expected {PARTITIONS}") from error
    return dict(zip(keys, ids, strict=True))


def current(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition(name, each.partition): each.replicas for name, each in described(admin, sorted(set(topics)))}


def as_json(replicas: Replicas) -> str:
    """Returns the document for --reassignment-json-file."""
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(ids), "log_dirs": ["any"] * len(ids)}
        for tp, ids in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))


def generate(admin: Admin, topics: list[str], brokers: str) -> int:
    there = [each.id for each in admin.describe_cluster().brokers]
    now = current(admin, topics)
    proposed = plan(now, numbers(brokers, there))
    write(f"Current partition replica assignment\n{as_json(now)}\n\n")
    write(f"Proposed partition reassignment configuration\n{as_json(proposed)}\n")
    return 0


def execute(admin: Admin, wanted: Replicas, rate: int | None) -> int:
    now = current(admin, {tp.topic for tp in wanted})
    write(f"Current partition replica assignment\n\n{as_json({tp: now[tp] for tp in wanted if tp in now})}\n\n")
    write("Save this to use as the --reassignment-json-file option during rollback\n")
    if rate is not None:
        adding = {tp: each.adding for tp, each in admin.list_partition_reassignments().items()}
        throttles.throttle(admin, throttles.moves(now, adding, wanted), rate)
    done = admin.alter_partition_reassignments(wanted, check=False)
    return told(done.errors, wanted, "Successfully started partition reassignment{s} for {names}\n")


def replicas_of(wanted: Replicas) -> set[int]:
    return {broker for ids in wanted.values() for broker in ids}


def cancel(admin: Admin, wanted: Replicas, *, lifts: bool) -> int:
    going_on = [tp for tp in wanted if tp in admin.list_partition_reassignments()]
    if going_on:
        done = admin.alter_partition_reassignments(dict.fromkeys(going_on), check=False)
        told(done.errors, going_on, "Successfully cancelled partition reassignment{s} for: {names}\n")
    else:
        write("None of the specified partition reassignments are active.\n")
    if lifts:
        throttles.lift(admin, {tp.topic for tp in wanted}, replicas_of(wanted))
    return 0


def told(errors: Mapping[TopicPartition, Exception], partitions: Iterable[TopicPartition], text: str) -> int:
    """Prints the results. Raises Failure for partitions that failed."""
    done = sorted(f"{tp.topic}-{tp.partition}" for tp in partitions if tp not in errors)
    if done:
        write(text.format(s="s" * (len(done) > 1), names=",".join(done)))
    if errors:
        (tp, error), *more = errors.items()
        raise Failure(f"{tp.topic}-{tp.partition}: {error}" + (f" (and {len(more)} more)" if more else ""))
    return 0


def verify(admin: Admin, wanted: Replicas, *, lifts: bool) -> int:
    now = current(admin, {tp.topic for tp in wanted})
    going_on = admin.list_partition_reassignments()
    write("Status of partition reassignment:\n")
    for tp, ids in sorted(wanted.items()):
        write(status(f"{tp.topic}-{tp.partition}", ids, now.get(tp, ()), tp in going_on))
    if lifts and not going_on.keys() & wanted.keys():
        write("\n")
        throttles.lift(admin, {tp.topic for tp in wanted if tp in now}, replicas_of(wanted))
    return 0


def status(name: str, wanted: Sequence[int], now: Sequence[int], goes_on: bool) -> str:
    if goes_on:
        return f"Reassignment of partition {name} is still in progress.\n"
    if list(wanted) == list(now):
        return f"Reassignment of partition {name} is completed.\n"
    is_, should = (",".join(map(str, ids)) for ids in (now, wanted))
    return (
        f"There is no active reassignment of partition {name}, but replica set is {is_} rather than {should}.\n"
    )


def listed(admin: Admin) -> str:
    found = admin.list_partition_reassignments()
    if not found:
        return "No partition reassignments found.\n"
    rows = []
    for tp, each in sorted(found.items()):
        replicas, adding, removing = (",".join(map(str, ids)) for ids in (each.replicas, each.adding, each.removing))
        row = f"{tp.topic}-{tp.partition}: replicas: {replicas}."
        row += f" adding: {adding}." if adding else ""
        row += f" removing: {removing}." if removing else ""
        rows.append(row)
    return "Current partition reassignments:\n" + "".join(f"{row}\n" for row in rows)
