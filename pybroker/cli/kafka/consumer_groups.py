"""``pybroker kafka-consumer-groups``: takes the options of kafka-consumer-groups.sh and answers as it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pybroker.cli.cluster_options import Cluster
from pybroker.cli.completing import GROUP, TOPIC
from pybroker.cli.group import delete_offsets, lags_of, refuse_members, shifted
from pybroker.cli.kafka.options import on_kafka, only
from pybroker.cli.output import plain_table, write
from pybroker.cli.places import EARLIEST, LATEST, OFFSET, TIME, Spot, chosen, milliseconds, offsets_at
from pybroker.cli.verbs import Verb, complain, failures, misuse

if TYPE_CHECKING:
    from pyclient import Admin, TopicPartition

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
LAGS = (
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
MEMBERS = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
STATES = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")


@click.command("kafka-consumer-groups", cls=Verb)
@click.option("--list", "actions", flag_value="list", multiple=True, help="Names, a line each.")
@click.option("--describe", "actions", flag_value="describe", multiple=True, help="Offsets, --members, --state.")
@click.option("--delete", "actions", flag_value="delete", multiple=True, help="Groups without members.")
@click.option("--reset-offsets", "actions", flag_value="reset-offsets", multiple=True, help="Shows it until --execute.")
@click.option("--delete-offsets", "actions", flag_value="delete-offsets", multiple=True, help="The offsets of a topic.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", shell_complete=GROUP)
@click.option("--all-groups", is_flag=True, help="Instead of --group.")
@click.option("--offsets", "view", flag_value="offsets", help="With --describe: this is the default.")
@click.option("--members", "view", flag_value="members", help="With --describe.")
@click.option("--state", "view", flag_value="state", help="With --describe.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", shell_complete=TOPIC)
@click.option("--all-topics", is_flag=True, help="All that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="The first record.")
@click.option("--to-latest", is_flag=True, help="Behind the last.")
@click.option("--to-current", is_flag=True, help="Where the group is.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N")
@click.option("--to-datetime", metavar="2026-11-22T01:00:00.000")
@click.option("--shift-by", type=int, metavar="±N", help="So many on, or back.")
@click.option("--dry-run", is_flag=True, help="Only show it; this is the default.")
@click.option("--execute", is_flag=True, help="Do it.")
@on_kafka()
def consumer_groups(
    cluster: Cluster,
    actions: tuple[str, ...],
    groups: tuple[str, ...],
    all_groups: bool,
    view: str | None,
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    **where: object,
) -> int:
    """kafka-consumer-groups.sh: --list, --describe, --delete, --reset-offsets or --delete-offsets."""
    action = only(actions, ACTIONS)
    if action != "list" and bool(groups) == all_groups:
        raise click.UsageError(f"--{action}: either --group or --all-groups")
    if action in ("reset-offsets", "delete-offsets") and bool(topics) == all_topics:
        raise click.UsageError(f"--{action}: either --topic or --all-topics")
    if action == "delete-offsets" and all_topics:
        raise click.UsageError("--delete-offsets: --topic is missing")
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute exclude each other")
    target = place(where) if action == "reset-offsets" else None
    with cluster.admin() as admin:
        there = [each.group_id for each in admin.list_consumer_groups()] if all_groups or action == "list" else groups
        if action == "list":
            write("".join(f"{name}\n" for name in there))
            return 0
        if action == "describe":
            return describe(admin, there, view)
        if action == "delete":
            return delete(admin, there)
        if action == "delete-offsets":
            return max((delete_offsets(admin, each, topics) for each in there), default=0)
        assert target is not None
        return max((reset(admin, each, topics, target, execute) for each in there), default=0)


def place(where: dict[str, object]) -> Spot | int:
    """Where to: a place, or by how much to shift. Raises UsageError."""
    given = {name: value for name, value in where.items() if value is not None and value is not False}
    if len(given) != 1:
        known = ", ".join("--" + name.replace("_", "-") for name in where)
        raise click.UsageError(f"--reset-offsets: exactly one of {known}")
    ((name, value),) = given.items()
    if name == "to_datetime":
        with misuse(f"--to-datetime {value}"):
            return Spot(TIME, milliseconds(str(value)))
    if name == "to_offset":
        return Spot(OFFSET, int(str(value)))
    words: dict[str, Spot | int] = {"to_earliest": Spot(EARLIEST), "to_latest": Spot(LATEST), "to_current": 0}
    return words[name] if name in words else int(str(value))


def describe(admin: Admin, groups: tuple[str, ...] | list[str], view: str | None) -> int:
    found = admin.describe_consumer_groups(groups, check=False)
    for name, group in found.items():
        rows: list[tuple[object, ...]]
        if view == "state":
            columns: tuple[str, ...] = STATES
            rows = [(name, group.coordinator, group.assignor or None, group.state, len(group.members))]
        elif view == "members":
            columns = MEMBERS
            rows = [(name, m.member_id, m.host, m.client_id, len(m.assignment)) for m in group.members]
        else:
            columns = LAGS
            rows = [(*row[:6], row[6], row[8], row[7]) for row in lags_of(admin, group)]
        if not group.members and view != "state":
            complain(f"Consumer group '{name}' has no active members.")
        if rows:
            write("\n" + plain_table(columns, rows))
    return failures("group", found.errors)


def delete(admin: Admin, groups: tuple[str, ...] | list[str]) -> int:
    done = admin.delete_consumer_groups(groups, check=False)
    if done:
        names = ", ".join(f"'{name}'" for name in done)
        write(f"Deletion of requested consumer groups ({names}) was successful.\n")
    return failures("group", done.errors)


def reset(admin: Admin, group: str, topics: tuple[str, ...], target: Spot | int, execute: bool) -> int:
    """Shows the new offsets, and commits them with --execute. ``topics`` empty: all committed."""
    refuse_members(admin, group)
    now = {tp: row.offset for tp, row in admin.list_consumer_group_offsets(group).items()}
    partitions = [tp for each in topics for tp in chosen(admin, each)] if topics else sorted(now)
    then = moved(admin, now, partitions, target)
    errors = admin.alter_consumer_group_offsets(group, then, check=False).errors if execute and then else {}
    rows = [(group, *tp, offset) for tp, offset in sorted(then.items())]
    if rows:
        write("\n" + plain_table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows))
    if not execute:
        complain(f"group {group}: nothing was changed: --execute does it")
    return failures(f"group {group}: partition", errors)


def moved(
    admin: Admin, now: dict[TopicPartition, int], partitions: list[TopicPartition], target: Spot | int
) -> dict[TopicPartition, int]:
    if isinstance(target, Spot):
        return offsets_at(admin, partitions, target)
    return shifted(admin, now, partitions, target)
